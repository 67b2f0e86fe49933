"""Firmware files: which ones a GPU needs, where they are, and whether they are the known ones."""

from drivers.firmware.manifest import (
    Chip,
    Entry,
    Manifest,
    Version,
    amd_manifest,
    chosen_manifest,
    read_manifest,
)
from drivers.firmware.search import Image, find, load

__all__ = [
    "Chip",
    "Entry",
    "Image",
    "Manifest",
    "Version",
    "amd_manifest",
    "chosen_manifest",
    "find",
    "load",
    "read_manifest",
]
