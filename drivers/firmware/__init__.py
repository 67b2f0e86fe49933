"""Firmware files: which ones a GPU needs, where they are, and whether they are the known ones."""

from drivers.firmware.manifest import (
    Chip,
    Entry,
    Manifest,
    Version,
    chosen_manifest,
    read_manifest,
    shipped_manifest,
)
from drivers.firmware.search import Image, find, load

__all__ = [
    "Chip",
    "Entry",
    "Image",
    "Manifest",
    "Version",
    "chosen_manifest",
    "find",
    "load",
    "read_manifest",
    "shipped_manifest",
]
