"""What steps, queues and graphs need of the device that they run on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from drivers.metal.memory import BufferOwner, MetalBuffer
from drivers.metal.program import ProgramOwner
from drivers.metal.ring import Ring, Work
from drivers.metal.signal import SignalOwner
from queues.builder import Built, Owner
from queues.graph import Recording


class MetalOwner(BufferOwner, SignalOwner, ProgramOwner, Owner, Protocol):
    """An open device. `lock` is held wherever something is encoded."""

    handle: int
    """The MTLDevice."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held wherever something is encoded."""

    def alone(self) -> AbstractContextManager[object]:
        """With the lock held: held while queues change. Raises: Unsupported inside of itself."""

    def alloc(self, nbytes: int) -> MetalBuffer:
        """Shared memory. Raises: OutOfMemory."""

    def tail_copy(self) -> int:
        """With the lock held: the pipeline that copies less than a word."""

    def run(self, ring: Ring, built: Built[Any]) -> None:
        """Run steps in order, after earlier ones of the ring. Raises: UseAfterFree, before."""

    def push(self, ring: Ring, steps: Sequence[Any]) -> None:
        """With the lock held: run checked commands."""

    def reach(self, ring: Ring, work: Work | None) -> None:
        """With the lock held: wait until a command buffer of a ring has ended. Raises: Hang."""

    def register(self, graph: Recording[Any]) -> None:
        """With the lock held: close it with the device."""
