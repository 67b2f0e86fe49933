"""What a kernel costs, by counting: cycles, bytes in flight, bank conflicts."""
