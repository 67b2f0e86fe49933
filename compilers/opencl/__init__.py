"""OpenCL C from kernel IR, compiled by the device's own driver."""
