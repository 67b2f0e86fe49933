"""Every access to the bus of a GPU goes wrong once: all of them, in `make sweep`."""
