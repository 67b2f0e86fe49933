"""Headers of DLPack's capsules, read and changed in place.

numpy makes the capsules and takes them over, so that deleters, reference counts and the GIL are its
own. What it does not know, the device and bfloat16, is written into the header here; nothing is
read from the memory that a header names.
# src: dmlc/dlpack v1.1 include/dlpack/dlpack.h, DLManagedTensor, DLManagedTensorVersioned, DLTensor
# src: CPython Objects/capsule.c, struct PyCapsule: the pointer follows the object's header
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from drivers.world.native import memory_at

__all__ = ["VERSION", "Capsule", "Header"]

VERSION: Final = (1, 1)
"""The newest that is read and written here."""
_BYTE_BITS: Final = 8
READ_ONLY, IS_COPIED, SUBBYTE_PADDED = 1, 2, 4
_NAMES: Final = {"dltensor": False, "dltensor_versioned": True}
_TYPE: Final = type(np.empty(0).__dlpack__())
"""CPython's PyCapsule, of which there are no subclasses."""
_SHOWN: Final = re.compile(r'<capsule object "([^"]*)" at 0x[0-9a-fA-F]+>')
"""# src: CPython Objects/capsule.c capsule_repr()"""
_POINTER: Final = struct.Struct("=Q")
_VERSION: Final = struct.Struct("=II")
_FLAGS: Final = struct.Struct("=Q")
_FLAGS_OFF: Final = 24
_TENSOR_OFF: Final = 32
"""Of a versioned capsule, after {u32 major, minor; ctx; deleter; u64 flags}; else 0."""
_TENSOR: Final = struct.Struct("=QiiiBBHQQQ")
"""{void *data; DLDevice {i32 type, id}; i32 ndim; DLDataType {u8 code, bits; u16 lanes}; ...}."""
MAX_AXES: Final = 64
"""numpy's."""

_MOST_BYTES: Final = (1 << 63) - 1
"""Of an array of numpy's, with axes of no elements left out."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a capsule says of its tensor. Strides are in elements."""

    data: int
    device: tuple[int, int]
    code: int
    bits: int
    lanes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    byte_offset: int
    readonly: bool
    """Whether nobody may write; also of a legacy capsule, which cannot say so."""
    copied: bool
    """Whether its library says that nobody else has the memory."""


def _bytes_at(address: int, nbytes: int) -> memoryview:
    return memory_at(address, nbytes, _nothing).cast("B")


def _nothing() -> None:
    """The bytes belong to somebody else."""


def _versioned(capsule: Any) -> bool:
    """Whether a capsule that nobody took is versioned. Raises: BufferError for any other object."""
    found = _SHOWN.fullmatch(repr(capsule)) if type(capsule) is _TYPE else None
    name = found[1] if found else ""
    if name in _NAMES:
        return _NAMES[name]
    if name.startswith("used_"):
        raise BufferError(f"the capsule {name!r} was taken over already; export the array again")
    raise BufferError(
        f"__dlpack__ gave {_shown(capsule)}, which is no DLPack capsule; report it to its library"
    )


def _shown(value: object) -> str:
    """An object of unknown origin, in a message."""
    return f"{value!r:.60}" if type(value) is _TYPE else f"an object of type {type(value).__name__}"


class Capsule:
    """A capsule that nobody has taken over yet."""

    def __init__(self, capsule: Any) -> None:
        """Raises: BufferError for anything else, or a version above 1."""
        self.object, self.versioned = capsule, _versioned(capsule)
        (start,) = _POINTER.unpack(_bytes_at(id(capsule) + object.__basicsize__, _POINTER.size))
        self._start = start
        tensor_off = _TENSOR_OFF if self.versioned else 0
        if self.versioned:
            major, minor = _VERSION.unpack(_bytes_at(start, _VERSION.size))
            if major != VERSION[0]:
                raise BufferError(
                    f"a capsule of DLPack {major}.{minor}; {VERSION[0]}.{VERSION[1]} is read here: "
                    "ask its library for max_version=(1, 1), or copy through numpy"
                )
        self._tensor = _bytes_at(start + tensor_off, _TENSOR.size)

    def read(self) -> Header:
        """Raises: BufferError for a number of axes or sizes that no array has."""
        data, kind, number, ndim, code, bits, lanes, shape, strides, offset = _TENSOR.unpack(
            self._tensor
        )
        if not 0 <= ndim <= MAX_AXES:
            raise BufferError(f"a capsule with {ndim} axes; 0 ... {MAX_AXES} are read here")
        if ndim and not shape:
            raise BufferError(f"a capsule with {ndim} axes and no shape; report it to its library")
        sizes = _words(shape, ndim)
        if any(n < 0 for n in sizes):
            raise BufferError(f"a capsule of shape {sizes}; report it to its library")
        if prod(max(n, 1) for n in sizes) * -(-bits // _BYTE_BITS) > _MOST_BYTES:
            raise BufferError(f"a capsule of shape {sizes} has more elements than an array can")
        flags = READ_ONLY
        if self.versioned:
            (flags,) = _FLAGS.unpack(_bytes_at(self._start + _FLAGS_OFF, _FLAGS.size))
        steps = _words(strides, ndim) if strides else None
        return Header(
            data=data, device=(kind, number), code=code, bits=bits, lanes=lanes, shape=sizes,
            strides=steps, byte_offset=offset, readonly=bool(flags & READ_ONLY),
            copied=bool(flags & IS_COPIED),
        )  # fmt: skip

    def write(self, device: tuple[int, int], code: int) -> None:
        """Change the device and the type code."""
        fields = list(_TENSOR.unpack(self._tensor))
        fields[1:3], fields[4] = device, code
        _TENSOR.pack_into(self._tensor, 0, *fields)

    def mark(self, minor: int, *, copied: bool) -> None:
        """Set the minor version of a versioned capsule, and whether it is of a copy."""
        if not self.versioned:
            return
        _VERSION.pack_into(_bytes_at(self._start, _VERSION.size), 0, VERSION[0], minor)
        place = _bytes_at(self._start + _FLAGS_OFF, _FLAGS.size)
        (flags,) = _FLAGS.unpack(place)
        _FLAGS.pack_into(place, 0, flags | IS_COPIED if copied else flags & ~IS_COPIED)


def _words(address: int, count: int) -> tuple[int, ...]:
    """Signed 64-bit numbers."""
    if not count:
        return ()
    return struct.unpack(f"={count}q", _bytes_at(address, 8 * count))
