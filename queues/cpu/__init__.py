"""The CPU device's packets, queue and recordings."""
