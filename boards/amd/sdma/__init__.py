"""The copy engines of a board, and their packets."""
