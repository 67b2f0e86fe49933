"""Every generator, and when a file is what a generator made."""

from __future__ import annotations

import re

from generators import (
    board_registers,
    driver_registers,
    field_tables,
    firmware_headers,
    register_names,
    smu,
)
from generators.source import Generator

GENERATORS: tuple[Generator, ...] = (
    driver_registers.GENERATOR, board_registers.GENERATOR, smu.GENERATOR,
    firmware_headers.GENERATOR, field_tables.GENERATOR, register_names.GENERATOR,
)  # fmt: skip
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


def same_inputs(one: str, other: str) -> bool:
    """Whether two files name the same inputs, by sha256."""
    return _DIGEST.findall(one) == _DIGEST.findall(other)


def differs(recorded: str, made: str) -> bool:
    """Whether the file is not what was made: byte for byte, where both had the same inputs.

    Another release of Linux may change a header's text and nothing that is taken from it: then the
    digests alone differ, and the file may stay.
    """
    if same_inputs(recorded, made):
        return recorded != made
    return _DIGEST.sub("", recorded) != _DIGEST.sub("", made)
