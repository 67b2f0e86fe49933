"""Compiled kernels as every device loads them: an image, its relocations, its resources."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Self

MAX_ARGS: Final = 1024
"""Of one kernel, for every device and for the cache."""


@dataclass(frozen=True, slots=True)
class Fixup:
    """Eight little-endian bytes at `offset` of the image become the address of `symbol` + addend.

    An empty `symbol` means the image's own base address.
    """

    offset: int
    symbol: str
    addend: int = 0


@dataclass(frozen=True, slots=True)
class Arg:
    """One argument of a launch: where its bytes go, and whether it is a buffer."""

    offset: int
    """Byte offset in the block of arguments, or the binding number where there is no such block."""
    nbytes: int
    """Of a value: 1 ... 8. Of a buffer: 8, the bytes of an address."""
    buffer: bool
    """A buffer's address; otherwise an integer by value."""


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of one launch of a kernel. Sizes in bytes; 0 for none."""

    block: int = 0
    """Default lanes of a workgroup in a launch; 0: `max_block`, or on devices without lanes
    none."""
    max_block: int = 0
    """Lanes of the largest workgroup the code was compiled for; 0: as large as the device allows.
    """
    shared_bytes: int = 0
    """Memory that the lanes of a workgroup share."""
    scratch_bytes: int = 0
    """Private memory of each worker thread (CPU) or of each lane (GPU)."""
    args: tuple[Arg, ...] | None = None
    """Arguments of a launch, in order. None: the code has no list, and takes 64-bit words."""
    vendor: bytes = b""
    """Private data of the family's compiler for its driver, in a format of `queues` that both
    import."""


NOTHING: Final = Resources()


@dataclass(frozen=True, slots=True)
class Binary:
    """Machine code ready to load: a flat image, its entry, and its resources."""

    arch: str
    """"x86_64", "gfx1100", "sm_90", ..."""
    name: str
    image: bytes
    entry: int
    """Byte offset of the kernel's first instruction (or descriptor) in `image`."""
    fixups: tuple[Fixup, ...] = ()
    data_offset: int = 0
    """Bytes before this offset are code (mapped r-x); from it on, data (mapped rw-)."""
    resources: Resources = field(default=NOTHING)

    def in_blocks_of(self, lanes: int) -> Self:
        """The same with another default number of lanes in a workgroup."""
        return replace(self, resources=replace(self.resources, block=lanes))
