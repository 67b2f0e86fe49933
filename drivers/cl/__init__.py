"""OpenCL devices: any platform's, through its C library."""
