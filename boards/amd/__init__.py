"""Software AMD GPUs. Nothing here imports the driver it is meant to test."""
