"""NVIDIA's boards: what the resource manager, UVM and the engines of a GPU do."""
