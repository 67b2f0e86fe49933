"""From what a kernel computes to its loop nest, on CPUs and GPUs."""
