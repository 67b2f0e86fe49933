"""A Binary as bytes and back. The reader trusts nothing: what is wrong raises MalformedInput."""

from __future__ import annotations

import struct

from drivers.base.contracts import Binary, Fixup
from drivers.base.errors import MalformedInput

MAGIC = b"UBIN"
LIMIT_BYTES = 24 << 20
"""Larger than any image of the ELF loader with its fixups."""

_HEAD = struct.Struct("<4sHHIIQQI")
"""magic, arch bytes, name bytes, fixups, resources, entry, data offset, image bytes"""
_FIXUP = struct.Struct("<QqH")
_RESOURCE = struct.Struct("<qH")


def encode(binary: Binary) -> bytes:
    """The bytes of `binary`. Raises: MalformedInput when it is larger than LIMIT_BYTES."""
    arch, name = binary.arch.encode(), binary.name.encode()
    counts = len(binary.fixups), len(binary.resources)
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
        for key, value in binary.resources.items():
            label = key.encode()
            parts += _RESOURCE.pack(value, len(label)), label
    except struct.error as error:
        raise MalformedInput(f"binary {binary.name[:64]!r} does not fit its format") from error
    parts.append(binary.image)
    blob = b"".join(parts)
    if len(blob) > LIMIT_BYTES:
        raise MalformedInput(f"binary {binary.name!r} is larger than {LIMIT_BYTES >> 20} MiB")
    return blob


class _Reader:
    """A position in bytes that never passes their end."""

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
    magic, arch_bytes, name_bytes, fixup_count, resource_count, entry, data_offset, size = head
    if magic != MAGIC or len(blob) > LIMIT_BYTES:
        raise MalformedInput(f"binary: {len(blob)} bytes that start with {magic!r}")
    if not entry < size or data_offset > size:
        raise MalformedInput(f"binary: entry {entry:#x} or data {data_offset:#x} leave the image")
    arch, name = reader.text(arch_bytes), reader.text(name_bytes)
    fixups = tuple(_fixup(reader, size) for _ in range(fixup_count))
    resources = dict(_resource(reader) for _ in range(resource_count))
    image = reader.take(size)
    if reader.at != len(blob):
        raise MalformedInput(f"binary: {len(blob) - reader.at} bytes too many")
    return Binary(arch, name, image, entry, fixups, data_offset, resources)


def _fixup(reader: _Reader, image_bytes: int) -> Fixup:
    offset, addend, symbol_bytes = _FIXUP.unpack(reader.take(_FIXUP.size))
    if offset + 8 > image_bytes:
        raise MalformedInput(f"binary: a fixup at {offset:#x} leaves the image")
    return Fixup(offset, reader.text(symbol_bytes), addend)


def _resource(reader: _Reader) -> tuple[str, int]:
    value, label_bytes = _RESOURCE.unpack(reader.take(_RESOURCE.size))
    return reader.text(label_bytes), value
