"""What WebGPU devices keep of a kernel."""
