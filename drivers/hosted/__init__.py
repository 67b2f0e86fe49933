"""What devices behind another driver's library share: OpenCL, Metal, WebGPU."""
