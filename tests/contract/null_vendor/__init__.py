"""A made-up vendor: the smallest device that keeps the contracts. See docs/adding-a-vendor.md."""
