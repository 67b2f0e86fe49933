"""Any GPU through the standard webgpu.h, over wgpu-native and Dawn."""
