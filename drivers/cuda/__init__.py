"""NVIDIA GPUs through CUDA's driver API (libcuda)."""
