"""What steps, queues and graphs need of the device that they run on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from drivers.base.undo import Step
from drivers.cuda.api import Api
from drivers.cuda.commands import Place
from drivers.cuda.memory import BufferOwner
from drivers.cuda.program import ProgramOwner
from drivers.cuda.ring import Ring
from drivers.cuda.signal import SignalOwner
from queues.builder import Built, Owner
from queues.graph import Recording


class CudaOwner(BufferOwner, SignalOwner, ProgramOwner, Owner, Protocol):
    """An open device. `working()` is held wherever something is enqueued."""

    api: Api

    def check_open(self) -> None:
        """Raises: UseAfterFree; DeviceGone on a lost context."""

    def word(self, value: object) -> int:
        """Of a kernel's argument: an address, or a number. Raises: BadArgument, UseAfterFree."""

    def place(self, value: object, nbytes: int, *, write: bool) -> Place:
        """Of a side of a copy. Raises: BadArgument, UseAfterFree."""

    def run(self, ring: Ring, built: Built[Any]) -> None:
        """Run steps in order, after earlier ones of the ring. Raises: UseAfterFree, before."""

    def push(self, ring: Ring, steps: Sequence[Any]) -> None:
        """With the lock held: run checked commands."""

    def drop(self, release: Step) -> None:
        """Finalisers call this at any moment: it runs once nothing is running."""

    def register(self, graph: Recording[Any]) -> None:
        """Close it with the device. Raises: UseAfterFree."""
