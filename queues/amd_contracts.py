"""What AMD's queues and graphs need of the device and the rings they are built for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from drivers.base.contracts import Buffer, Program, Signal
from queues.amd_launch import Block, Kernel, Scratch, Target
from queues.sdma import Engine


class Launch(Protocol):
    """A launch of one kernel with one workgroup size: PM4 words, or an AQL packet."""

    kernel: Kernel


class ComputeRing(Protocol):
    """A ring that runs kernels. Everything is used with `lock` held."""

    name: str
    lock: AbstractContextManager[bool]

    def launch(self, launcher: Launch, words: Sequence[int], grid: Block) -> None:
        """One launch, its arguments checked."""

    def emit(self, words: Sequence[int]) -> None:
        """PM4 packets, wherever this ring reads them from."""

    def bind(self, items: Sequence[Item], memory: GraphMemory) -> Bound:
        """Write a recording to memory once."""


class Bound(Protocol):
    """A recording in memory, and where its arguments are."""

    argument_offs: list[int]
    """Byte of the memory of every launch's arguments, in order."""

    def play(self, ring: ComputeRing) -> int:
        """With the lock held: run it; what to wait for before its words are changed."""


class GraphMemory(Protocol):
    """Memory that host and queues see."""

    gpu_va: int
    nbytes: int

    def view(self) -> memoryview:
        """Its bytes."""


class Item:
    """One step of a queue: PM4 words, or a launch."""

    __slots__ = ("block", "grid", "launcher", "program", "values", "words")

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


class CopyRing(Protocol):
    """A ring that copies."""

    name: str
    lock: AbstractContextManager[bool]
    engine: Engine

    def emit(self, packets: Iterable[Sequence[int]]) -> None:
        """Packets in order, and one doorbell."""


class Owner(Protocol):
    """The device side: validation of what a packet names, and memory for graphs."""

    freed_mark: object
    target: Target
    mailbox_va: int
    event_id: int

    def argument_word(self, value: Buffer | int) -> int:
        """The 64-bit word of a kernel argument. Raises: BadArgument, UseAfterFree."""

    def copy_word(self, value: Buffer, nbytes: int, *, write: bool) -> int:
        """The address of a buffer that `nbytes` are copied from or to."""

    def signal_word(self, signal: Signal) -> int:
        """The address of a live signal. Raises: BadArgument, UseAfterFree."""

    def check_alive(self, things: Sequence[object]) -> None:
        """Raises: UseAfterFree when one of the buffers, programs or signals is gone."""


__all__ = ["Bound", "ComputeRing", "CopyRing", "GraphMemory", "Item", "Launch", "Owner", "Scratch"]
