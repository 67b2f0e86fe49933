"""An AMD GPU that no kernel driver has: found, booted and driven over bare PCI."""
