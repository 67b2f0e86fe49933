"""AMD GPUs through the kernel: /dev/kfd, its topology, memory, queues and events."""
