"""The graphs of a device, to name what a queue stands at and to close them."""

from __future__ import annotations

import weakref
from threading import RLock
from typing import Protocol

from drivers.base.undo import Step


class Part(Protocol):
    """A copy of a recording, at an address."""

    gpu_va: int
    view: memoryview


class Recording(Protocol):
    """A graph in memory that host and GPU see."""

    names: list[str]
    """Of the programs in it."""
    nbytes: int
    """Of one copy."""
    scratch: bool
    """Whether its packets hold the address of scratch."""

    lock: RLock
    """The compute queue's."""

    def find(self, va: int) -> Part | None:
        """The copy that an address is in."""

    def close(self) -> None:
        """Give the memory back once it is done."""


class Recordings:
    """All of them that are alive."""

    def __init__(self) -> None:
        self._all: weakref.WeakSet[Recording] = weakref.WeakSet()

    def add(self, made: Recording) -> None:
        """Register a graph."""
        self._all.add(made)

    def names(self, va: int) -> list[str]:
        """Programs of the graph whose packets are at the address."""
        found = [graph for graph in list(self._all) if graph.find(va) is not None]
        return [name for graph in found for name in graph.names]

    def packets(self, va: int, nbytes: int) -> bytes:
        """The packets of a graph at the address."""
        for graph in list(self._all):
            copy = graph.find(va)
            if copy is not None and va + nbytes <= copy.gpu_va + graph.nbytes:
                return bytes(copy.view[va - copy.gpu_va :][:nbytes])
        return b""

    def after_fork(self, lock: RLock) -> None:
        """In a child: a thread that is not here may hold the old lock."""
        for graph in list(self._all):
            graph.lock = lock

    @property
    def use_scratch(self) -> bool:
        """Whether packets of one hold the address of scratch."""
        return any(graph.scratch for graph in list(self._all))

    @property
    def closers(self) -> list[Step]:
        """What closes every graph."""
        return [graph.close for graph in list(self._all)]
