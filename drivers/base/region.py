"""A Region over plain memory: bounds-checked, little-endian, unusable after `close`."""

from __future__ import annotations

from collections.abc import Callable

from drivers.base.errors import Denied, UseAfterFree

_WORD, _DOUBLE = 4, 8
"""Bytes of the two widths of a register."""


class MemoryRegion:
    """Bytes in this process: a mapping, or any writable buffer.

    `on_close` runs exactly once. Memory that a caller still views when the region closes stays
    mapped until the last view is gone, so that no view ever dangles.

    Hardware: an aligned word is one load or store of its width, as a register needs it; a copy of
    bytes may access them twice or one by one.
    """

    __slots__ = ("_doubles", "_on_close", "_view", "_words", "cpu_va", "name", "nbytes", "writable")

    def __init__(
        self,
        memory: bytearray | memoryview,
        *,
        cpu_va: int = 0,
        name: str = "memory",
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self._view: memoryview | None = memoryview(memory).cast("B")
        self._on_close = on_close
        self.cpu_va, self.name, self.nbytes = cpu_va, name, self._view.nbytes
        self.writable = not self._view.readonly
        self._words: memoryview | None = self._view[: self.nbytes & -_WORD].cast("I")
        self._doubles: memoryview | None = self._view[: self.nbytes & -_DOUBLE].cast("Q")

    def __repr__(self) -> str:
        state = "" if self._view is not None else ", closed"
        return f"MemoryRegion({self.name}, {self.nbytes:#x} bytes at {self.cpu_va:#x}{state})"

    def _at(self, off: int, nbytes: int) -> memoryview:
        view = self._view
        if view is None:
            raise UseAfterFree(f"{self.name} is closed", hint="open or allocate it again")
        if off < 0 or nbytes < 0 or off + nbytes > self.nbytes:
            raise IndexError(f"{self.name}: {off:#x}+{nbytes:#x} is outside {self.nbytes:#x} bytes")
        return view[off : off + nbytes]

    def _writable_at(self, off: int, nbytes: int) -> memoryview:
        part = self._at(off, nbytes)
        if not self.writable:
            raise Denied(f"{self.name} is read-only", hint="ask the world to protect(write=True)")
        return part

    def read32(self, off: int) -> int:
        """The 32-bit word at byte `off`."""
        part = self._at(off, _WORD)
        if self._words is None or off % _WORD:
            return int.from_bytes(part, "little")
        return self._words[off // _WORD]

    def write32(self, off: int, value: int) -> None:
        """Raises: OverflowError when `value` does not fit 32 bits."""
        part, data = self._writable_at(off, _WORD), value.to_bytes(_WORD, "little")
        if self._words is None or off % _WORD:
            part[:] = data
        else:
            self._words[off // _WORD] = value

    def read64(self, off: int) -> int:
        """The 64-bit word at byte `off`."""
        part = self._at(off, _DOUBLE)
        if self._doubles is None or off % _DOUBLE:
            return int.from_bytes(part, "little")
        return self._doubles[off // _DOUBLE]

    def write64(self, off: int, value: int) -> None:
        """Raises: OverflowError when `value` does not fit 64 bits."""
        part, data = self._writable_at(off, _DOUBLE), value.to_bytes(_DOUBLE, "little")
        if self._doubles is None or off % _DOUBLE:
            part[:] = data
        else:
            self._doubles[off // _DOUBLE] = value

    def read(self, off: int, nbytes: int) -> bytes:
        """A copy of `nbytes` bytes from byte `off`."""
        return bytes(self._at(off, nbytes))

    def write(self, off: int, data: bytes | memoryview) -> None:
        """Copy `data` to byte `off`."""
        source = memoryview(data).cast("B")
        self._writable_at(off, source.nbytes)[:] = source

    def view(self) -> memoryview:
        """The bytes themselves, not a copy; read-only when the region is."""
        view = self._at(0, self.nbytes)
        return view if self.writable else view.toreadonly()

    def close(self) -> None:
        """Give the memory back. A second close does nothing."""
        if self._view is None:
            return
        self._view = self._words = self._doubles = None
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()
