"""Execution of machine code, all waves of a chunk of workgroups at once."""
