"""NVIDIA machine code: a table an architecture, a decoder and the text nvdisasm prints."""
