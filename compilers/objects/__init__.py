"""Object files: read within bounds, linked, and listed."""
