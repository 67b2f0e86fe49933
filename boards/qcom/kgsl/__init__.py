"""/dev/kgsl-3d0, as Qualcomm's downstream kernels have it."""
