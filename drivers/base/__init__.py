"""What every driver is made of: errors, contracts, bounded views, registers, ioctls."""
