"""Bounded little-endian reads: the only way bytes from outside become numbers."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

from drivers.base.errors import MalformedInput

_SHOWN_BYTES = 16


@cache
def _layout(fmt: str) -> struct.Struct:
    return struct.Struct("<" + fmt)


class View:
    """An immutable window on outside bytes; every read is named, and checked first.

    Raises: MalformedInput, from every method, saying where and which rule.
    """

    __slots__ = ("data", "start", "what")

    def __init__(self, data: bytes | bytearray | memoryview, what: str, start: int = 0) -> None:
        self.data = memoryview(data).toreadonly().cast("B")
        self.what, self.start = what, start

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"View({self.what}, {len(self.data):#x} bytes at {self.start:#x})"

    def fail(self, rule: str, off: int = 0) -> MalformedInput:
        """The error for a rule that byte `off` breaks; the caller raises it."""
        return MalformedInput(
            f"{self.what}, byte {self.start + off:#x}: {rule}",
            hint="get the file or device data again; if it stays, report it",
        )

    def sub(self, off: int, nbytes: int, what: str) -> View:
        """A named window within this one."""
        self._check(off, nbytes, what)
        return View(self.data[off : off + nbytes], f"{self.what}: {what}", self.start + off)

    def _check(self, off: int, nbytes: int, what: str) -> None:
        size = len(self.data)
        if off < 0 or nbytes < 0 or off > size - nbytes:
            raise self.fail(f"{what} at {off:#x}+{nbytes:#x} is outside {size:#x} bytes")

    def bytes(self, off: int, nbytes: int, what: str) -> bytes:
        """A copy of `nbytes` bytes."""
        self._check(off, nbytes, what)
        return self.data[off : off + nbytes].tobytes()

    def unpack(self, fmt: str, off: int, what: str) -> tuple[Any, ...]:
        """`struct.unpack` of a little-endian layout without padding."""
        layout = _layout(fmt)
        self._check(off, layout.size, what)
        return layout.unpack_from(self.data, off)

    def u8(self, off: int, what: str) -> int:
        """An unsigned byte."""
        return int(self.unpack("B", off, what)[0])

    def u16(self, off: int, what: str) -> int:
        """An unsigned 16-bit number."""
        return int(self.unpack("H", off, what)[0])

    def u32(self, off: int, what: str) -> int:
        """An unsigned 32-bit number."""
        return int(self.unpack("I", off, what)[0])

    def u64(self, off: int, what: str) -> int:
        """An unsigned 64-bit number."""
        return int(self.unpack("Q", off, what)[0])

    def table(self, fmt: str, off: int, count: int, what: str) -> list[tuple[Any, ...]]:
        """`count` records of one layout; the size is checked before anything is allocated."""
        layout = _layout(fmt)
        self._check(off, count * layout.size if count >= 0 else -1, what)
        part = self.data[off : off + count * layout.size]
        return list(layout.iter_unpack(part))

    def cstr(self, off: int, limit_bytes: int, what: str) -> str:
        """A NUL-ended printable ASCII name of fewer than `limit_bytes` bytes."""
        self._check(off, 0, what)
        raw = self.data[off : off + min(limit_bytes, len(self.data) - off)].tobytes()
        name, nul, _ = raw.partition(b"\0")
        if not nul or not name.isascii() or not name.decode("latin-1").isprintable():
            shown = raw[:_SHOWN_BYTES]
            raise self.fail(
                f"{what} is not a NUL-ended name of <{limit_bytes} bytes: {shown!r}", off
            )
        return name.decode("ascii")
