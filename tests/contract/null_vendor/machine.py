"""The made-up GPU: memory at addresses of its own, two rings, and a processor that is pumped.

Its machine code is the number of a kernel of the IR, which an interpreter runs in its memory. It
shares no declaration with the driver beside the words of its packets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from compilers.ir import Kernel
from tests.gpu_interpreter import GpuInterpreter
from tests.ir_interpreter import storage

BASE: Final = 0x40_0000_0000
MEMORY_BYTES: Final = 1 << 26
WAVE: Final = 8
CODE_BYTES: Final = 8
CODE: Final[list[Kernel]] = []
"""What an assembler has made, by number."""
Packet: TypeAlias = tuple[Any, ...]
"""("wait" | "signal", va, value), ("time", va), ("copy", [dst, src], nbytes), ("barrier",), or
("exec", code va, (x, y, z), lanes, addresses)."""


class NullMachine:
    """The hardware. Nothing happens unless somebody pumps it."""

    def __init__(self) -> None:
        self.memory = bytearray(MEMORY_BYTES)
        self.rings: tuple[deque[Packet], deque[Packet]] = deque(), deque()
        self.ticks = 0

    def at(self, va: int, nbytes: int) -> memoryview:
        """Bytes of its memory. Raises: IndexError outside."""
        off = va - BASE
        if not 0 <= off <= off + nbytes <= MEMORY_BYTES:
            raise IndexError(f"{va:#x}+{nbytes:#x} is no memory")
        return memoryview(self.memory)[off : off + nbytes]

    def pump(self) -> None:
        """Run what can run, until both rings are empty or wait."""
        while any(self._step(ring) for ring in self.rings):
            pass

    def _step(self, ring: deque[Packet]) -> bool:
        """One packet, if it does not wait."""
        if not ring:
            return False
        kind, *rest = ring[0]
        if kind == "wait" and self.at(rest[0], 8).cast("Q")[0] < rest[1]:
            return False
        ring.popleft()
        if kind in ("signal", "time"):
            self.ticks += 1
            words = self.at(rest[0], 16).cast("Q")
            words[1] = self.ticks
            if kind == "signal":
                words[0] = rest[1]
        elif kind == "copy":
            (dst, src), nbytes = rest
            self.at(dst, nbytes)[:] = bytes(self.at(src, nbytes))
        elif kind == "exec":
            self._run(*rest)
        return True

    def _run(self, code: int, grid: Sequence[int], lanes: int, addresses: Sequence[int]) -> None:
        kernel = CODE[self.at(code, CODE_BYTES).cast("Q")[0]]
        arrays = {}
        for ref, va in zip(kernel.params, addresses, strict=True):
            view = self.at(va, ref.size * ref.dtype.itemsize)
            arrays[ref] = np.frombuffer(view, storage(ref.dtype))
        for _ in range(grid[1] * grid[2]):  # its kernels look at x alone
            GpuInterpreter(replace(kernel, block=lanes), arrays, WAVE).run(grid[0])
