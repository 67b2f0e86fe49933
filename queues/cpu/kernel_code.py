"""What the CPU's compilers pass to its driver with a kernel: `Resources.vendor` of its Binary.

A kernel that takes long checks between chunks of its grid whether to continue
(`compilers/lower/pace.py`); the others have no such bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from drivers.base.contracts import Binary
from drivers.base.errors import MalformedInput
from queues.cpu.packets import MAX_GRID

_FORMAT: Final = struct.Struct("<QB")


@dataclass(frozen=True, slots=True)
class CpuCode:
    """How a kernel takes its grid."""

    chunk_items: int = 0
    """Grid items taken at once; 0: chosen by the command processor."""
    long: bool = False
    """Whether it can be stopped between them."""

    def encode(self) -> bytes:
        """The bytes of `Resources.vendor`; empty for the defaults."""
        said = self.chunk_items or self.long
        return _FORMAT.pack(self.chunk_items, self.long) if said else b""

    @classmethod
    def of(cls, binary: Binary) -> Self:
        """The record that a compiler wrote for this kernel. Raises: MalformedInput."""
        blob = binary.resources.vendor
        if not blob:
            return cls()
        items, long = _FORMAT.unpack(blob) if len(blob) == _FORMAT.size else (MAX_GRID + 1, 0)
        if items > MAX_GRID or long > 1:
            raise MalformedInput(f"{binary.name}: {blob[:16]!r} is not a number of items at once")
        return cls(items, bool(long))
