"""Kernel IR to source text: one walk, and a printer for each language."""
