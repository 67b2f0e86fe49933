"""SASS executed: all threads of a chunk of blocks at once, numpy for the lanes."""
