"""Apple GPUs through Metal: the Objective-C runtime called by cffi, public interfaces alone."""
