"""What the commands for AMD GPUs share: inspection, smoke tests, sensors."""
