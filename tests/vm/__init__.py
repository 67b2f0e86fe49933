"""The board inside a real Linux: a virtual machine whose GPU is a vfio-user socket (`make vm`)."""
