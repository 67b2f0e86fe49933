"""`--trace FILE`: every register access by name, and what is written to VRAM, as JSON lines.

    {"t": 0.002, "step": "load firmware", "op": "R", "register": "MP0.C2PMSG_81", "dword": 90257,
     "value": 0}
    {"t": 0.003, "op": "W", "bar": 0, "offset": 33554432, "data": "..."}        base64

What queues write through a view of BAR0 (rings, arguments, staging), and host memory, is not in it:
a boot can be played back by `python -m drivers.replay`, work on the queues cannot. Over KFD,
`python -m drivers.record` records the work, too.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from io import TextIOWrapper
from types import TracebackType
from typing import Self

from drivers.bare.bus import Access
from drivers.base.contracts import Region
from drivers.base.deadline import Clock
from drivers.world.owned import new_file

VRAM_BAR = 0
PIECE_BYTES = 1 << 20
"""Most bytes of one line."""


class TraceFile:
    """An open trace, complete to the last access. Times are seconds from its beginning.

    Raises: BadArgument when the file cannot be written; Denied for a link, for a file of somebody
    else or with a second name, and for what is no file: nothing there is written to.
    """

    def __init__(self, path: str, clock: Clock) -> None:
        self._file = TextIOWrapper(new_file(path), encoding="ascii", line_buffering=True)
        self._clock, self._begun_s = clock, clock.monotonic_s()

    def register(self, access: Access) -> None:
        """One access of a register."""
        self._line(
            {
                "step": access.step, "op": access.op, "register": access.name,
                "dword": access.dword, "value": access.value,
            },
            access.time_s,
        )  # fmt: skip

    def written(self, off: int, data: bytes) -> None:
        """Bytes written to VRAM, in lines of bounded length."""
        now_s = self._clock.monotonic_s()
        for at in range(0, len(data), PIECE_BYTES):
            piece = b64encode(data[at : at + PIECE_BYTES]).decode()
            found = {"op": "W", "bar": VRAM_BAR, "offset": off + at, "data": piece}
            self._line(found, now_s)

    def _line(self, facts: dict[str, object], now_s: float) -> None:
        shown = {"t": round(now_s - self._begun_s, 6), **facts}
        self._file.write(json.dumps(shown) + "\n")

    def close(self) -> None:
        """Write what is left. A second close does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


class TracedRegion:
    """A region that reports every write through it; writes through a view are not reported."""

    def __init__(self, region: Region, written: Callable[[int, bytes], None]) -> None:
        self._region, self._written = region, written
        self.nbytes, self.cpu_va = region.nbytes, region.cpu_va
        self.read32, self.read64, self.read = region.read32, region.read64, region.read
        self.view, self.close = region.view, region.close

    def write32(self, off: int, value: int) -> None:
        """Store 32 bits."""
        self._region.write32(off, value)
        self._written(off, value.to_bytes(4, "little"))

    def write64(self, off: int, value: int) -> None:
        """Store 64 bits."""
        self._region.write64(off, value)
        self._written(off, value.to_bytes(8, "little"))

    def write(self, off: int, data: bytes | memoryview) -> None:
        """Store bytes."""
        self._region.write(off, data)
        self._written(off, bytes(data))
