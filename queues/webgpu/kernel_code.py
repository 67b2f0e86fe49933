"""A WGSL kernel as it is kept: its source, and what a launch needs."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from drivers.base.errors import MalformedInput

_HEAD: Final = struct.Struct("<4sIIII")
_MAGIC: Final = b"UWG1"
MAX_ARGS: Final = 1024
ARCH: Final = "webgpu"
"""How names of architectures begin."""
ENTRY: Final = "k_"
"""Before a kernel's name, which could be a word of WGSL."""
SUBGROUPS: Final = "subgroups"
"""The feature of devices whose subgroups all have `Limits.wave_lanes`, and exchange values."""
HALF: Final = "float16-conversion"
"""The feature of devices whose pack2x16float and unpack2x16float are IEEE's for all values."""
READ: Final = "r"
WRITE: Final = "w"
BLOCK: Final = "@workgroup_size({}, {}, {})"
"""Of the kernel's entry: a launch with another block replaces it."""


@dataclass(frozen=True, slots=True)
class WgslCode:
    """One kernel."""

    source: bytes
    access: bytes
    """READ or WRITE for each buffer that a launch names."""
    block: int
    shared_bytes: int

    @property
    def entry(self) -> str:
        """The kernel's name in its source."""
        named = self.source.decode(errors="replace").partition(f"fn {ENTRY}")[2]
        return ENTRY + named.partition("(")[0]

    def encode(self) -> bytes:
        """The image of a Binary."""
        numbers = len(self.access), len(self.source), self.block, self.shared_bytes
        return _HEAD.pack(_MAGIC, *numbers) + self.access + self.source

    @classmethod
    def decode(cls, image: bytes) -> Self:
        """Raises: MalformedInput."""
        if len(image) <= _HEAD.size:
            raise MalformedInput(f"{len(image)} bytes are no WGSL kernel", hint="compile it anew")
        magic, nargs, source, block, shared = _HEAD.unpack_from(image)
        rest = image[_HEAD.size :]
        access = rest[:nargs]
        known = set(access) <= {ord(READ), ord(WRITE)}
        whole = magic == _MAGIC and nargs <= MAX_ARGS and nargs + source == len(rest)
        if not whole or not known:
            raise MalformedInput(f"{image[:16]!r} begins no WGSL kernel", hint="compile it anew")
        return cls(rest[nargs:], access, block, shared)
