"""The shader processors: ir3 machine code, executed over all waves of many workgroups at once."""
