"""Command streams of Adreno GPUs: packets, registers, and what a compiled kernel says of itself."""
