"""A made-up Linux machine, for boards of any vendor: memory, files, processes, time."""
