"""What queues, graphs and chains need of the device that they run on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from drivers.base.undo import Step
from drivers.cl.building import Builder
from drivers.cl.heap import Heap
from drivers.cl.memory import BufferOwner, ClBuffer
from drivers.cl.program import ProgramOwner
from drivers.cl.recorder import Recorder
from drivers.cl.ring import Command, Ring
from drivers.cl.signal import SignalOwner
from queues.builder import Owner
from queues.graph import Recording


class ClOwner(BufferOwner, SignalOwner, ProgramOwner, Owner, Protocol):
    """An open device. `lock` is held wherever something is enqueued."""

    heap: Heap
    builder: Builder
    recorder: Recorder | None
    """Of command buffers; None where the device has none."""
    units: int

    def take(self, nbytes: int) -> ClBuffer:
        """With the lock held: memory. Raises: OutOfMemory."""

    def register(self, graph: Recording[Any]) -> None:
        """With the lock held: close it with the device."""

    def begin(self, ring: Ring) -> None:
        """With the lock held: a ring is about to run something."""

    def push(self, ring: Ring, ready: Sequence[Command]) -> None:
        """With the lock held: run checked commands."""

    def finish(self, ring: Ring) -> None:
        """Wait until everything enqueued is done."""

    def drop(self, releases: Iterable[Step]) -> None:
        """Finalisers call this at any moment: release objects later, with the lock held."""
