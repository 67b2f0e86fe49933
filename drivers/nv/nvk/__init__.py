"""NVIDIA's kernel driver: /dev/nvidiactl, /dev/nvidia0 and /dev/nvidia-uvm."""
