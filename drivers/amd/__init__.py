"""AMD GPUs through the kernel's compute interface: `drivers.amd.opening` opens one."""
