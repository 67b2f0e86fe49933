"""The machine, and nothing else touches it: real, faulty and replayed worlds."""
