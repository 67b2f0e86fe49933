"""Command queues and graphs of OpenCL devices, as lists of steps."""
