"""From the kernel IR to machine code of Adreno's shader cores (ir3)."""
