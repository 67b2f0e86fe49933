"""What becomes a kernel: cutting a graph, and what each part computes."""
