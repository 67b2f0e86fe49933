"""Kernels written in Triton, compiled by its own compilers, run by our loader on the boards."""
