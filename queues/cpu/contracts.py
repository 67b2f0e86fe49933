"""What the CPU's queue and graph need of the device and ring they are built for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from drivers.base.contracts import Buffer, Grid, Program, Signal
from queues.builder import Owner

Follow: TypeAlias = Callable[[], None]
"""Waits for a kernel that takes long; called with the ring's lock free."""


class Ring(Protocol):
    """Where packets go. Everything is used with `lock` held."""

    name: str
    can_exec: bool
    turn: int
    """Grows with each run that begins at `depth` 0, before its arguments are read."""
    depth: int
    """Nested runs with `lock` held: two where a signal handler computes. The inner one needs its
    own memory: the ring's has the words of the run that the handler interrupted."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held by the one thread that runs packets."""

    def submit(self, words: Sequence[int], keep: Sequence[object]) -> Follow | None:
        """Run the packets now, or queue them; `keep` names what they use."""

    def doorbell(self, words: memoryview, words_va: int, keep: Sequence[object]) -> Follow | None:
        """Run packets in device memory; those that have to wait are copied first."""


class CpuOwner(Owner, Protocol):
    """The device side: validation of what a packet names, and memory for graphs."""

    def alloc(self, nbytes: int) -> Buffer:
        """Device memory."""

    def program_words(
        self, program: Program, nargs: int, grid: Grid, block: Grid | None
    ) -> tuple[int, int]:
        """(entry, chunk) of a live program of this device. Raises: BadArgument, UseAfterFree."""

    def argument_word(self, value: Buffer | int) -> int:
        """The 64-bit word of a kernel argument. Raises: BadArgument, UseAfterFree."""

    def copy_word(self, value: Buffer, nbytes: int, *, write: bool) -> int:
        """The address of a buffer that `nbytes` are copied from or to."""

    def signal_word(self, signal: Signal) -> int:
        """The address of a live signal of this device. Raises: BadArgument, UseAfterFree."""
