"""ir3 machine code: read by the board from its own tables."""
