"""NVIDIA GPUs: over NVIDIA's own kernel driver (NVK)."""
