"""What AMD's queues and graphs need of the device they are built for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from drivers.base.contracts import Buffer, Grid, Program, Signal
from queues.amd.pm4_launch import Block, Target
from queues.amd.sdma import Engine
from queues.bound_graph import Binder
from queues.builder import Owner


class Item:
    """One step of a compute queue: PM4 words, or a launch with its arguments checked."""

    __slots__ = ("block", "grid", "program", "shared_bytes", "values", "words")

    def __init__(
        self,
        words: Sequence[int] = (),
        program: Program | None = None,
        values: Sequence[int] = (),
        grid: Block = (1, 1, 1),
        block: Block = (1, 1, 1),
        shared_bytes: int = 0,
    ) -> None:
        """`shared_bytes`: of a launch, beside what its kernel declares."""
        self.words, self.program, self.values = words, program, values
        self.grid, self.block, self.shared_bytes = grid, block, shared_bytes


class AmdOwner(Owner, Protocol):
    """The device side: validation of what a packet names."""

    name: str
    mailbox_va: int
    event_id: int

    def signal_word(self, signal: Signal) -> int:
        """The address of a live signal. Raises: BadArgument, UseAfterFree."""

    def signal_value(self, value: int) -> int:
        """A value that queues can compare. Raises: BadArgument."""


class Looking(Protocol):
    """Looks for faults before a doorbell is rung."""

    @property
    def on(self) -> bool:
        """Whether that has to be done."""

    def __call__(self) -> None:
        """Raises: the device's fault."""


class ComputeOwner(AmdOwner, Binder[Item], Protocol):
    """What a compute queue needs in addition."""

    target: Target

    @property
    def look(self) -> Looking:
        """To be called before work is given to the queue."""

    def argument_word(self, value: Buffer | int) -> int:
        """The 64-bit word of a kernel argument. Raises: BadArgument, UseAfterFree."""

    def launch_item(
        self,
        program: Program,
        values: Sequence[int],
        grid: Grid,
        block: Grid | None,
        shared_bytes: int = 0,
    ) -> Item:
        """A launch, its program, sizes and number of arguments checked."""

    def run(self, items: Sequence[Item], check: Callable[[], None]) -> None:
        """Give the steps to the ring; `check` is called first, with the ring's lock held."""


class CopyOwner(AmdOwner, Protocol):
    """What a copy queue needs in addition."""

    @property
    def engine(self) -> Engine:
        """The version of the copy engine."""

    def copy_word(self, value: Buffer, nbytes: int, *, write: bool) -> int:
        """The address of a buffer that `nbytes` are copied from or to."""

    def run_copies(self, packets: Iterable[Sequence[int]], check: Callable[[], None]) -> None:
        """Give packets to the ring; `check` is called first, with the ring's lock held."""
