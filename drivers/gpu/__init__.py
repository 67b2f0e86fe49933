"""What the device of any GPU vendor needs, as objects that a vendor's device composes."""
