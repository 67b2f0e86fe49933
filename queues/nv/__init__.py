"""What NVIDIA GPUs read: methods of push buffers, QMDs, the entries of a GPFIFO."""
