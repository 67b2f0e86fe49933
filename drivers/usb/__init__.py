"""GPUs behind USB."""
