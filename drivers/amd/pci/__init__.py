"""An unbound AMD GPU: found, booted and driven over bare PCI."""
