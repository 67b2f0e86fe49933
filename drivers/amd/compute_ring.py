"""What both kinds of compute queue do: prepared launches, packets, caches invalidated."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

from drivers.amd.iface import HardwareQueue
from drivers.base.errors import BadArgument
from drivers.gpu.ring import ComputeRing, RingParts
from queues.amd import words as amd_words
from queues.amd.aql_launch import AqlLauncher
from queues.amd.pm4_launch import Block, Launcher, Target

AnyLauncher: TypeAlias = Launcher | AqlLauncher


class AmdComputeRing(ComputeRing):
    """A queue of PM4 or AQL packets."""

    hw: HardwareQueue

    def __init__(self, parts: RingParts, hw: HardwareQueue, target: Target) -> None:
        super().__init__(parts, hw)
        self.target = target

    def settle(self, mark: int) -> bool:
        return bool(self.hw.settle())

    @abstractmethod
    def launch(self, launcher: AnyLauncher, words: Sequence[int], grid: Block) -> None:
        """One launch, its arguments checked."""

    @abstractmethod
    def quick(self, launcher: AnyLauncher, words: Sequence[int], grid: int) -> None:
        """A launch of `grid` workgroups in one dimension: the fast path of eager work."""

    @abstractmethod
    def emit(self, words: Sequence[int]) -> None:
        """PM4 packets, then the progress."""

    def acquire(self) -> None:
        self.emit(amd_words.acquire(self.target))


def wrong_kind(name: str) -> BadArgument:
    """The error for a launch prepared for a queue of another format."""
    return BadArgument(f"{name} reads packets of another format", hint="load the program again")
