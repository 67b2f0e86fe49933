"""A Binary as bytes and back. The reader trusts no field: invalid bytes raise MalformedInput."""

from __future__ import annotations

import struct

from drivers.base.binary import MAX_ARGS
from drivers.base.contracts import Arg, Binary, Fixup, Resources
from drivers.base.errors import MalformedInput

MAGIC = b"UBI2"
LIMIT_BYTES = 24 << 20
"""Larger than any image of the ELF loader with its fixups."""

_HEAD = struct.Struct("<4sHHIIQQI")
"""magic, arch bytes, name bytes, fixups, vendor's bytes, entry, data offset, image bytes"""
_FIXUP = struct.Struct("<QqH")
_RESOURCES = struct.Struct("<IIQQi")
"""block, max_block, shared_bytes, scratch_bytes, number of arguments (-1: unknown)"""
_ARG = struct.Struct("<III")
"""offset, bytes, whether it is a buffer"""


def encode(binary: Binary) -> bytes:
    """The bytes of `binary`. Raises: MalformedInput when it is larger than LIMIT_BYTES."""
    arch, name, needs = binary.arch.encode(), binary.name.encode(), binary.resources
    counts = len(binary.fixups), len(needs.vendor)
    try:
        parts = [
            _HEAD.pack(MAGIC, len(arch), len(name), *counts, binary.entry, binary.data_offset,
                       len(binary.image)),
            arch,
            name,
        ]  # fmt: skip
        for fixup in binary.fixups:
            symbol = fixup.symbol.encode()
            parts += _FIXUP.pack(fixup.offset, fixup.addend, len(symbol)), symbol
        parts.append(_encoded(needs))
    except struct.error as error:
        raise MalformedInput(f"binary {binary.name[:64]!r} does not fit its format") from error
    parts.append(binary.image)
    blob = b"".join(parts)
    if len(blob) > LIMIT_BYTES:
        raise MalformedInput(f"binary {binary.name!r} is larger than {LIMIT_BYTES >> 20} MiB")
    return blob


def _encoded(needs: Resources) -> bytes:
    args = () if needs.args is None else needs.args
    count = -1 if needs.args is None else len(args)
    sizes = needs.block, needs.max_block, needs.shared_bytes, needs.scratch_bytes
    parts = [_RESOURCES.pack(*sizes, count)]
    parts += (_ARG.pack(arg.offset, arg.nbytes, arg.buffer) for arg in args)
    return b"".join([*parts, needs.vendor])


class _Reader:
    """A bounded position in bytes."""

    __slots__ = ("at", "blob")

    def __init__(self, blob: bytes) -> None:
        self.blob, self.at = blob, 0

    def take(self, nbytes: int) -> bytes:
        start, self.at = self.at, self.at + nbytes
        if self.at > len(self.blob):
            raise MalformedInput(f"binary: {nbytes} bytes at {start} leave {len(self.blob)} bytes")
        return self.blob[start : self.at]

    def text(self, nbytes: int) -> str:
        try:
            return self.take(nbytes).decode()
        except UnicodeDecodeError as error:
            raise MalformedInput(f"binary: the text before byte {self.at} is not UTF-8") from error


def decode(blob: bytes) -> Binary:
    """The Binary that `encode` wrote. Raises: MalformedInput."""
    reader = _Reader(blob)
    head = _HEAD.unpack(reader.take(_HEAD.size))
    magic, arch_bytes, name_bytes, fixup_count, vendor_bytes, entry, data_offset, size = head
    if magic != MAGIC or len(blob) > LIMIT_BYTES:
        raise MalformedInput(f"binary: {len(blob)} bytes that start with {magic!r}")
    if not entry < size or data_offset > size:
        raise MalformedInput(f"binary: entry {entry:#x} or data {data_offset:#x} leave the image")
    arch, name = reader.text(arch_bytes), reader.text(name_bytes)
    fixups = tuple(_fixup(reader, size) for _ in range(fixup_count))
    resources = _resources(reader, vendor_bytes)
    image = reader.take(size)
    if reader.at != len(blob):
        raise MalformedInput(f"binary: {len(blob) - reader.at} bytes too many")
    return Binary(arch, name, image, entry, fixups, data_offset, resources)


def _fixup(reader: _Reader, image_bytes: int) -> Fixup:
    offset, addend, symbol_bytes = _FIXUP.unpack(reader.take(_FIXUP.size))
    if offset + 8 > image_bytes:
        raise MalformedInput(f"binary: a fixup at {offset:#x} leaves the image")
    return Fixup(offset, reader.text(symbol_bytes), addend)


def _resources(reader: _Reader, vendor_bytes: int) -> Resources:
    block, most, shared, scratch, count = _RESOURCES.unpack(reader.take(_RESOURCES.size))
    if not -1 <= count <= MAX_ARGS:
        raise MalformedInput(f"binary: {count} arguments, not 0 ... {MAX_ARGS}")
    args = None if count < 0 else tuple(_arg(reader) for _ in range(count))
    return Resources(block, most, shared, scratch, args, reader.take(vendor_bytes))


def _arg(reader: _Reader) -> Arg:
    offset, nbytes, buffer = _ARG.unpack(reader.take(_ARG.size))
    if buffer > 1:
        raise MalformedInput(f"binary: an argument of kind {buffer}, not 0 or 1")
    return Arg(offset, nbytes, bool(buffer))
