"""Qualcomm Adreno GPUs, over KGSL and over the mainline msm driver."""
