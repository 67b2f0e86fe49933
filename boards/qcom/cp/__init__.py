"""The command processor: packets, waits, events, state, and dispatches."""
