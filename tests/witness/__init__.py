"""Software that nobody here wrote, run against the boards."""
