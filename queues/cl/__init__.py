"""What is kept of OpenCL kernels. Queues are in `drivers/cl`: their steps call the library."""
