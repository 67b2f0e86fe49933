"""One Adreno over KGSL, the kernel driver of Qualcomm's own kernels."""
