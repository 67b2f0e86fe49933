"""The kernel's compute interface of a board: /dev/kfd, its events, memory and sysfs."""
