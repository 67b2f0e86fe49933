"""The programs of a device: loading, prepared launches, and the scratch that all of them share."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from drivers.amd.aql_ring import AqlRing
from drivers.amd.pair import AmdPair
from drivers.amd.pm4_ring import Pm4Ring
from drivers.amd.program import AmdProgram, Owner, load
from drivers.amd.scratch import ScratchMemory
from drivers.base.contracts import Binary
from drivers.base.undo import Step
from drivers.gpu.iface import Memory
from drivers.gpu.recordings import Recordings
from queues.amd.aql_launch import AqlLauncher
from queues.amd.hidden import HiddenAqlLauncher, HiddenLauncher
from queues.amd.kernarg import NULLS
from queues.amd.pm4_launch import Block, Kernel, Launcher, Scratch, Target

DROPPED: Final = 64
"""Programs that are closed or gone and still named: a user may drop one while it runs."""


class _Dropped(NamedTuple):
    """What is left of a program that is closed, or that nobody holds any more."""

    name: str
    descriptor_va: int
    code: range

    def is_at(self, code_va: int, descriptor_va: int) -> bool:
        """Whether its code or its descriptor was at the address."""
        return code_va in self.code or descriptor_va == self.descriptor_va


class Programs:
    """Programs for the compute queue of `pair`."""

    def __init__(
        self,
        target: Target,
        pair: AmdPair,
        scratch: ScratchMemory,
        recordings: Recordings,
    ) -> None:
        self._target, self._pair, self.scratch = target, pair, scratch
        self._recordings = recordings
        self._all: weakref.WeakSet[AmdProgram] = weakref.WeakSet()
        self._old_scratch: list[Memory] = []
        self._dropped: deque[_Dropped] = deque(maxlen=DROPPED)

    def load(self, device: Owner, binary: Binary) -> AmdProgram:
        """Copy a kernel to the card. Raises: Unsupported, MalformedInput, OutOfMemory."""
        program = load(device, binary, partial(self._ensure_scratch, device), self.prepare)
        self._all.add(program)
        dropped = _Dropped(program.name, program.kernel.descriptor_va, program.code)
        program.forgotten = partial(self._dropped.appendleft, dropped)
        return program

    def prepare(self, kernel: Kernel, block: Block, reports: bool) -> Launcher | AqlLauncher:
        """A launch of `kernel` that only needs its arguments."""
        ring = self._pair.compute
        if not isinstance(ring, Pm4Ring):
            return (HiddenAqlLauncher if kernel.hidden else AqlLauncher)(kernel, block)
        scratch = self.scratch.now if kernel.private_bytes else Scratch()
        va = ring.progress_va if reports else ring.step_va
        kind = HiddenLauncher if kernel.hidden else Launcher
        return kind(self._target, kernel, scratch, block, va, in_graph=not reports)

    def _ensure_scratch(self, device: Owner, kernel: Kernel) -> None:
        """Grow scratch for `kernel` and rebuild prepared launches."""
        if kernel.private_bytes <= self.scratch.lane_bytes:
            return
        device.synchronize()
        old = self.scratch.grow(kernel.private_bytes)
        for program in list(self._all):
            program.renew()
        ring = self._pair.compute
        if isinstance(ring, AqlRing):
            ring.set_scratch(self.scratch.now, self.scratch.lane_bytes)
        if old is not None and self._recordings.use_scratch:
            self._old_scratch.append(old)  # a graph's packets hold its address
        elif old is not None:
            old.free()

    def names(self, *, code_va: int = 0, descriptor_va: int = 0) -> list[str]:
        """Programs whose code or descriptor is at the address.

        Their memory outlasts the work that needs it, so the last of those that are gone counts
        where none of those that are loaded is there.
        """
        found = [
            program.name
            for program in list(self._all)
            if program.alive
            and (program.holds(code_va) or descriptor_va == program.kernel.descriptor_va)
        ]
        dropped = self._dropped.copy()  # in one step: a collection may drop programs at any time
        gone = (one.name for one in dropped if one.is_at(code_va, descriptor_va))
        return found or list(islice(gone, 1))

    def services(self, names: Sequence[str]) -> list[str]:
        """Services of a host runtime that kernels of these names list, and no launch has."""
        kinds = {
            one.kind
            for program in list(self._all)
            if program.alive and program.name in names
            for one in program.kernel.hidden
        }
        return sorted({what for kind, what in NULLS.items() if kind in kinds})

    @property
    def old_scratch(self) -> list[Step]:
        """What frees the scratch that graphs still named when it grew."""
        return [bo.free for bo in self._old_scratch]

    @property
    def closers(self) -> list[Step]:
        """What closes every program."""
        return [program.close for program in list(self._all) if program.alive]
