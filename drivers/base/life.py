"""A device's life cycle: it takes work, it takes back what others hold, its memory is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from drivers.base.errors import UseAfterFree
from drivers.base.interrupts import deferred
from drivers.base.undo import Step, run_all


class State(Enum):
    """Where a device is in it."""

    OPEN = "it takes work"
    CLOSING = "it refuses work, and takes back what programs, graphs and buffers hold"
    CLOSED = "its memory is gone: what is given back now is dropped"


class Life:
    """The state of one device. `name` is what errors call it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = State.OPEN

    @property
    def open(self) -> bool:
        """Whether it takes work: close has not begun."""
        return self.state is State.OPEN

    def check(self) -> None:
        """Raises: UseAfterFree once close has begun."""
        if self.state is not State.OPEN:
            raise UseAfterFree(f"{self.name} is closed", hint="open it again")

    def close(self, parts: Callable[[], Iterable[Step]], again: Step) -> None:
        """Run all `parts`; Ctrl-C waits for the end of it.

        A second close runs `again`, which gives back what the first one could not; one inside the
        first, from a finaliser for instance, does nothing.
        Raises: the first error, after all parts have run.
        """
        with deferred():
            if self.state is State.OPEN:
                self.state = State.CLOSING
                run_all(parts())
            elif self.state is State.CLOSED:
                again()
