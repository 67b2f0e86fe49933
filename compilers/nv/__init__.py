"""NVIDIA GPUs: CUDA C or PTX from kernel IR, cubins, and what a launch needs to know of them."""
