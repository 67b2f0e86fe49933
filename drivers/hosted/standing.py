"""Whether a device takes work, and what was made on it and is closed with it."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any, Final, Protocol

from drivers.base.errors import UseAfterFree
from drivers.base.undo import Step, run_all

FORKED: Final = "was opened before a fork"


class Closes(Protocol):
    """A program, a signal, or an object made of another one's memory."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""

    def close(self) -> None:
        """Once."""


class Graph(Protocol):
    """What may be closed twice."""

    def close(self) -> None:
        """A second close does nothing."""


class Standing:
    """Of one device. `refused`: why it takes no work any more; "" while it does."""

    def __init__(self, name: str) -> None:
        self.name, self.refused = name, ""
        self.graphs: weakref.WeakSet[Graph] = weakref.WeakSet()
        self.programs: weakref.WeakSet[Any] = weakref.WeakSet()
        self.signals: weakref.WeakSet[Any] = weakref.WeakSet()
        self.derived: weakref.WeakSet[Any] = weakref.WeakSet()
        """What was made on it and may be alive."""

    def check(self) -> None:
        """Raises: UseAfterFree once it takes no work."""
        if self.refused:
            raise UseAfterFree(f"{self.name} {self.refused}", hint="open it again")

    def forked(self) -> None:
        """In a child: the device is its parent's."""
        self.refused = FORKED

    def close(self, failed: Iterable[Exception], then: Iterable[Step]) -> None:
        """Close graphs, programs and signals, then run the device's own steps.

        Raises: the first of `failed`, or the first error, after all steps have run.
        """
        ones: list[Closes] = [*self.programs, *self.signals, *self.derived]
        try:
            run_all([
                *(partial(_raise, error) for error in failed),
                *(graph.close for graph in self.graphs),
                *(one.close for one in ones if not one.closed),
                *then,
            ])  # fmt: skip
        finally:
            self.refused = "is closed"


def _raise(error: Exception) -> None:
    raise error
