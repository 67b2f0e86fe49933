"""Software that nobody here wrote, run against the boards: `make witness-rocr`, docs/witnesses.md.

Clients that know real hardware, unmodified. What each of them asks of a board, what the board
reports of them and what they report of the board is checked, and printed after each run.
"""
