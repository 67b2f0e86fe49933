"""Reserved addresses: a Region without contents."""

from __future__ import annotations

from typing import NoReturn

from drivers.base.errors import Unsupported


class NoContents:
    """The accesses of a Region, all of which are refused."""

    def _refuse(self, *arguments: object) -> NoReturn:
        raise Unsupported(f"{self!r} has no contents", hint="map memory within it")

    def read32(self, off: int) -> int:
        self._refuse(off)

    def write32(self, off: int, value: int) -> None:
        self._refuse(off, value)

    def read64(self, off: int) -> int:
        self._refuse(off)

    def write64(self, off: int, value: int) -> None:
        self._refuse(off, value)

    def read(self, off: int, nbytes: int) -> bytes:
        self._refuse(off, nbytes)

    def write(self, off: int, data: bytes | memoryview) -> None:
        self._refuse(off, data)

    def view(self) -> memoryview:
        self._refuse()
