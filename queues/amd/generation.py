"""The generation of graphics that a chip is of: the key of the tables of packets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from drivers.base.errors import Unsupported

Generation = tuple[int, int]
"""Major and minor version of the graphics core: (11, 0) for gfx1100 to gfx1103."""
Entry = TypeVar("Entry")
_NAME = re.compile(r"gfx(\d{1,2})([0-9a-f])[0-9a-f]")


def generation(chip: str) -> Generation | None:
    """From LLVM's name for a chip, where the last digit is the stepping; None for other names."""
    found = _NAME.fullmatch(chip)
    return (int(found[1]), int(found[2], 16)) if found else None


def entry_of(table: Mapping[Generation, Entry], chip: str) -> Entry:
    """A table's entry for a chip's generation. Raises: Unsupported, with those in the table."""
    key = generation(chip)
    if key is None or key not in table:
        known = ", ".join(f"gfx{major}{minor:x}*" for major, minor in table)
        raise Unsupported(f"no packets of {chip!r}", hint=f"known: {known}")
    return table[key]
