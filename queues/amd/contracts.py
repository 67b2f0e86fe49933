"""What AMD's queues and graphs need of the device they are built for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from drivers.base.contracts import Buffer, Grid, Program, Signal
from queues.amd.pm4_launch import Block, Target
from queues.amd.sdma import Engine
from queues.builder import Owner


class Item:
    """One step of a compute queue: PM4 words, or a launch with its arguments checked."""

    __slots__ = ("block", "grid", "program", "values", "words")

    def __init__(
        self,
        words: Sequence[int] = (),
        program: Program | None = None,
        values: Sequence[int] = (),
        grid: Block = (1, 1, 1),
        block: Block = (1, 1, 1),
    ) -> None:
        self.words, self.program, self.values = words, program, values
        self.grid, self.block = grid, block


class Copy(Protocol):
    """A recording in memory that host and GPU see, with arguments of its own."""

    words: memoryview
    """Its memory as 64-bit words."""
    given: list[int]
    """The words of all Params that are in it; empty: none yet."""
    packing: bool
    """Whether it is being patched or replayed."""


class Bound(Protocol):
    """A recording in one or more copies."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Of what runs it."""

    def place(self, item: int, number: int) -> int:
        """The word of argument `number` of step `item`."""

    @property
    def recent(self) -> Copy:
        """The copy that was prepared last."""

    def prepare(self, given: list[int], patch: Callable[[Any, list[int]], None]) -> Copy | None:
        """With the lock held: a copy that has these words, patched where none has; else None.

        Its `given` is `given` unless a signal handler patched it since.
        """

    def settle(self) -> None:
        """Return once a copy may be free."""

    def play(self, copy: Any) -> None:
        """With the lock held: run it, with `packing` True. Raises: UseAfterFree."""

    def close(self) -> None:
        """Give the memory back once it is done."""


class AmdOwner(Owner, Protocol):
    """The device side: validation of what a packet names."""

    name: str
    mailbox_va: int
    event_id: int

    def signal_word(self, signal: Signal) -> int:
        """The address of a live signal. Raises: BadArgument, UseAfterFree."""

    def signal_value(self, value: int) -> int:
        """A value that queues can compare. Raises: BadArgument."""


class ComputeOwner(AmdOwner, Protocol):
    """What a compute queue needs in addition."""

    target: Target

    def argument_word(self, value: Buffer | int) -> int:
        """The 64-bit word of a kernel argument. Raises: BadArgument, UseAfterFree."""

    def argument_words(self, values: Sequence[Buffer | int]) -> list[int]:
        """Those of several. Raises: BadArgument, UseAfterFree."""

    def launch_item(
        self, program: Program, values: Sequence[int], grid: Grid, block: Grid | None
    ) -> Item:
        """A launch, its program, sizes and number of arguments checked."""

    def run(self, items: Sequence[Item], check: Callable[[], None]) -> None:
        """Give the steps to the ring; `check` is called first, with the ring's lock held."""

    def bind(self, items: Sequence[Item]) -> Bound:
        """Write the steps to memory once."""


class CopyOwner(AmdOwner, Protocol):
    """What a copy queue needs in addition."""

    @property
    def engine(self) -> Engine:
        """The version of the copy engine."""

    def copy_word(self, value: Buffer, nbytes: int, *, write: bool) -> int:
        """The address of a buffer that `nbytes` are copied from or to."""

    def run_copies(self, packets: Iterable[Sequence[int]], check: Callable[[], None]) -> None:
        """Give packets to the ring; `check` is called first, with the ring's lock held."""
