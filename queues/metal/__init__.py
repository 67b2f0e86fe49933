"""Command queues of Metal devices, and how their kernels are kept."""
