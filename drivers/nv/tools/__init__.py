"""What commands show of NVIDIA GPUs."""
