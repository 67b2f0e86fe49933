"""AMD GPUs: declarations of the kernel's compute interface, topology, chips, save areas, probe."""

DRIVER_WRITTEN = False
"""Whether `drivers.open` can open an AMD GPU; until then `python -m drivers.amd.probe` looks."""
