"""Kernels as libcuda takes them."""
