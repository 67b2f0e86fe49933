"""The programs of a device: loading, prepared launches, the private memory that all share."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import Final

from drivers.base import forks
from drivers.base.contracts import Binary
from drivers.base.undo import Step, Undo
from drivers.nv.local_memory import LocalMemory
from drivers.nv.program import NvProgram, Owner, load
from drivers.nv.rings import NvPair
from queues.nv.bound import MOST_CHAINED, following_of
from queues.nv.classes import WORD_BITS
from queues.nv.launch import Block, Kernel, Launcher
from queues.nv.qmd import QmdLayout, layout_of
from queues.nv.words import Target

DROPPED: Final = 64
"""Programs that are closed or gone and still named: a user may drop one while it runs."""
Read = Callable[[int, int], bytes]
"""(address, bytes) -> packets that are there; b"" for none."""


class Programs:
    """Programs for the compute queue of `pair`."""

    def __init__(
        self, target: Target, pair: NvPair, local: LocalMemory, quiet: Callable[[], object]
    ) -> None:
        self._target, self._pair, self._local, self._quiet = target, pair, local, quiet
        self._all: weakref.WeakSet[NvProgram] = weakref.WeakSet()
        self._dropped: deque[tuple[str, range]] = deque(maxlen=DROPPED)
        self.after_fork()
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the lock."""
        self._growing = RLock()
        """Two threads that load do not replace each other's area by a smaller one."""

    def load(self, device: Owner, binary: Binary) -> NvProgram:
        """Copy a kernel to the card. Raises: Unsupported, MalformedInput, OutOfMemory."""
        sm = self._target.sm
        program = load(device, binary, sm, self._ensure_local, self.prepare)
        self._all.add(program)
        program.forgotten = partial(self._dropped.appendleft, (program.name, program.code))
        return program

    def prepare(self, kernel: Kernel, block: Block) -> Launcher:
        """A launch of `kernel` that only needs its arguments."""
        return Launcher(self._target, kernel, block, self._pair.compute.progress_va)

    def _ensure_local(self, kernel: Kernel) -> None:
        """Grow private memory for `kernel`; QMDs name sizes, the channel the address."""
        with self._growing:
            if kernel.lane_bytes <= self._local.lane_bytes:
                return
            self._quiet()
            self._adopt(kernel.lane_bytes)
            self._quiet()
            self._local.free_left()

    def _adopt(self, lane_bytes: int) -> None:
        """Give the channel a larger area; where that fails it keeps the one it has."""
        with Undo() as undo:
            area = self._local.make(lane_bytes)
            undo.add(area.memory.free)
            ring = self._pair.compute
            with ring.lock:
                ring.emit(area.words(self._target))
                self._local.adopt(area)

    def names(self, code_va: int) -> list[str]:
        """Programs whose code is at the address; the last that is gone, where none is there."""
        found = [one.name for one in list(self._all) if one.alive and code_va in one.code]
        gone = [name for name, code in self._dropped.copy() if code_va in code]
        return found or gone[:1]

    def names_of_qmd(self, read: Read, qmd_va: int, finished: int = 0) -> list[str]:
        """Programs that a QMD starts, and those that follow it; `read` finds them in memory.

        Of a graph's launches, the first `finished` ones are done.
        """
        target, found = self._target, list[str]()
        layout = layout_of(target.qmd)
        for _ in range(MOST_CHAINED):
            raw = read(qmd_va, layout.nbytes)
            if len(raw) != layout.nbytes:
                break
            number, qmd_va = following_of(target, raw)
            if number > finished or not number:
                found += self.names(self._code_va(layout, raw))
            if not qmd_va:
                break
        return found

    def _code_va(self, layout: QmdLayout, raw: bytes) -> int:
        bits, va = int.from_bytes(raw, "little"), 0
        for number, half in enumerate(("LOWER", "UPPER")):
            high, low, shift = layout.place(f"PROGRAM_ADDRESS_{half}")
            part = bits >> low & (1 << high - low + 1) - 1
            va |= part << shift + number * WORD_BITS
        return va

    @property
    def closers(self) -> list[Step]:
        """What closes every program."""
        return [program.close for program in list(self._all) if program.alive]
