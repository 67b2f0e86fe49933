"""WGSL from kernel IR, compiled by the WebGPU library that has the device open."""
