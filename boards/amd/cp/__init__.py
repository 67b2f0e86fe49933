"""The command processors of a board: PM4 and AQL packets, dispatches, signals."""
