"""A Metal kernel as it is kept: its source, and what a launch needs.

Metal has no public format of compiled kernels; macOS keeps what it compiled, by the source.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from drivers.base.errors import MalformedInput

_HEAD: Final = struct.Struct("<4sIIII")
_MAGIC: Final = b"UMT1"
MAX_BUFFERS: Final = 31
ARCH: Final = "metal"
"""How names of architectures begin."""
MATRICES: Final = "simdgroup_matrix"
"""The feature of devices whose SIMD-groups multiply matrices."""
ENTRY: Final = "k_"
"""Before a kernel's name, which could be a function or a keyword of MSL."""


@dataclass(frozen=True, slots=True)
class MetalCode:
    """One kernel."""

    source: bytes
    nargs: int
    """Buffers that a launch names."""
    block: int
    """Lanes of its workgroups."""
    shared_bytes: int

    def encode(self) -> bytes:
        """The image of a Binary."""
        head = _HEAD.pack(_MAGIC, len(self.source), self.nargs, self.block, self.shared_bytes)
        return head + self.source

    @classmethod
    def decode(cls, image: bytes) -> Self:
        """Raises: MalformedInput."""
        if len(image) <= _HEAD.size:
            raise MalformedInput(f"{len(image)} bytes are no Metal kernel", hint="compile it anew")
        magic, size, nargs, block, shared = _HEAD.unpack_from(image)
        if magic != _MAGIC or _HEAD.size + size != len(image) or nargs > MAX_BUFFERS or not block:
            raise MalformedInput(f"{image[:16]!r} begins no Metal kernel", hint="compile it anew")
        return cls(image[_HEAD.size :], nargs, block, shared)
