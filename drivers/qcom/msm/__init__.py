"""One Adreno over msm, the kernel driver of mainline Linux."""
