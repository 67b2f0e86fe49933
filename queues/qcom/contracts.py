"""What Adreno's queues need of the device they are built for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from drivers.base.contracts import Buffer, Grid, Program, Signal
from queues.bound_graph import Binder
from queues.builder import Owner
from queues.qcom.chips import Chip
from queues.qcom.launch import Block


class Item:
    """One step of a compute queue: words, or a launch with its arguments checked."""

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


class QcomOwner(Owner, Protocol):
    """The device side: validation of what a step names."""

    name: str
    chip: Chip

    def signal_word(self, signal: Signal) -> int:
        """The address of a live signal. Raises: BadArgument, UseAfterFree."""

    def signal_value(self, value: int) -> int:
        """A value that queues can compare. Raises: BadArgument."""

    def time_word(self, signal: Signal) -> int:
        """Where its time is written. Raises: BadArgument, UseAfterFree."""


class ComputeOwner(QcomOwner, Binder[Item], Protocol):
    """What a compute queue needs in addition."""

    def argument_word(self, value: Buffer | int) -> int:
        """The 64-bit word of a kernel argument. Raises: BadArgument, UseAfterFree."""

    def launch_item(
        self, program: Program, values: Sequence[int], grid: Grid, block: Grid | None
    ) -> Item:
        """A launch, its program, sizes and number of arguments checked."""

    def in_pieces(self, items: Sequence[Item]) -> bool:
        """Whether a launch among them is so long that it is one in pieces."""

    def run(self, items: Sequence[Item], check: Callable[[], None]) -> None:
        """Give the steps to the ring; `check` is called first, with the ring's lock held."""


class Copies(Protocol):
    """How memory is copied."""

    def parts(self, dst: int, src: int, nbytes: int) -> Iterable[list[int]]:
        """Packets, of which a submission takes those that fit."""


class CopyOwner(QcomOwner, Protocol):
    """What a copy queue needs in addition."""

    @property
    def copier(self) -> Copies:
        """How memory is copied."""

    def copy_word(self, value: Buffer, nbytes: int, *, write: bool) -> int:
        """The address of a buffer that `nbytes` are copied from or to."""

    def run_copies(self, parts: Iterable[Sequence[int]], check: Callable[[], None]) -> None:
        """Give words to the ring; `check` is called first, with the ring's lock held."""
