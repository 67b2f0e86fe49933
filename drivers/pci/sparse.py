"""A BAR of which only parts may be mapped: the rest goes through the device's file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Protocol

from drivers.base.contracts import Region
from drivers.base.errors import Unsupported, UseAfterFree
from drivers.base.undo import run_all

_WORD, _DOUBLE = 4, 8


class Transfers(Protocol):
    """Reads and writes at an offset of the BAR, through the kernel."""

    def read(self, off: int, nbytes: int) -> bytes:
        """One read of at most 8 aligned bytes reaches the device as one access."""

    def write(self, off: int, data: bytes) -> None:
        """One write of at most 8 aligned bytes reaches the device as one access."""


class SparseRegion:
    """A Region of `nbytes`; `areas` are (offset, mapped part), everything else is `slow`.

    An access that is not wholly inside one area goes through the kernel.
    """

    def __init__(
        self, name: str, nbytes: int, areas: Sequence[tuple[int, Region]], slow: Transfers
    ) -> None:
        self.name, self.nbytes, self.cpu_va = name, nbytes, 0
        self._areas, self._slow, self._open = tuple(areas), slow, True

    def _part(self, off: int, nbytes: int) -> tuple[Region, int] | None:
        """The mapped part that has all of an access, and where in it."""
        if not self._open:
            raise UseAfterFree(f"{self.name} is closed", hint="open the session again")
        if off < 0 or nbytes < 0 or off + nbytes > self.nbytes:
            raise IndexError(f"{self.name}: {off:#x}+{nbytes:#x} is outside {self.nbytes:#x} bytes")
        for start, region in self._areas:
            if start <= off and off + nbytes <= start + region.nbytes:
                return region, off - start
        return None

    def _number(self, off: int, nbytes: int) -> int:
        return int.from_bytes(self._slow.read(off, nbytes), "little")

    def read32(self, off: int) -> int:
        part = self._part(off, _WORD)
        return part[0].read32(part[1]) if part else self._number(off, _WORD)

    def read64(self, off: int) -> int:
        part = self._part(off, _DOUBLE)
        return part[0].read64(part[1]) if part else self._number(off, _DOUBLE)

    def write32(self, off: int, value: int) -> None:
        part, data = self._part(off, _WORD), value.to_bytes(_WORD, "little")
        if part:
            part[0].write32(part[1], value)
        else:
            self._slow.write(off, data)

    def write64(self, off: int, value: int) -> None:
        part, data = self._part(off, _DOUBLE), value.to_bytes(_DOUBLE, "little")
        if part:
            part[0].write64(part[1], value)
        else:
            self._slow.write(off, data)

    def read(self, off: int, nbytes: int) -> bytes:
        part = self._part(off, nbytes)
        return part[0].read(part[1], nbytes) if part else self._slow.read(off, nbytes)

    def write(self, off: int, data: bytes | memoryview) -> None:
        source = bytes(data)
        part = self._part(off, len(source))
        if part:
            part[0].write(part[1], source)
        else:
            self._slow.write(off, source)

    def view(self) -> NoReturn:
        """Refused: not all of it is memory."""
        raise Unsupported(f"only parts of {self.name} are mapped", hint="use read and write")

    def close(self) -> None:
        """Unmap every part. A second close does nothing."""
        self._open = False
        run_all([region.close for _, region in self._areas])
