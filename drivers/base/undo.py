"""Undoing steps: those of a failed opening, and all of them at closing.

Every step runs, even after errors of others; no error is lost, and Ctrl-C waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Self, TypeAlias, TypeVar

from drivers.base.interrupts import deferred

T = TypeVar("T")
Step: TypeAlias = Callable[[], object]


def run_all(steps: Iterable[Step]) -> None:
    """Run every step; Ctrl-C waits for the last one.

    Raises: the first error, with the others as its notes; one that is no Exception (an
    interruption) before all others.
    """
    errors: list[BaseException] = []
    with deferred():
        for step in steps:
            try:
                step()
            except BaseException as error:
                errors.append(error)
        if errors:
            raise _chief(errors)


def _chief(errors: list[BaseException]) -> BaseException:
    """The one that is raised."""
    chief = next((one for one in errors if not isinstance(one, Exception)), errors[0])
    for other in errors:
        if other is not chief:
            chief.add_note(f"and then: {other}")
    return chief


def whole(make: Callable[[], T], close: Callable[[T], object]) -> T:
    """What `make` opens: Ctrl-C is delivered after it, and closes what was opened.

    Where `make` calls `interrupts.check` it is delivered there, and `make` undoes its steps.
    """
    with Undo() as undo:
        with deferred():
            made = make()
            undo.add(partial(close, made))
        return made


class Undo:
    """Steps of a `with` block, undone in reverse order when the block fails."""

    def __init__(self) -> None:
        self._steps: list[Step] = []

    def add(self, step: Step) -> None:
        """Add the undo of the step just done."""
        self._steps.append(step)

    def hand_over(self, step: Step) -> None:
        """From here on `step` undoes everything done so far."""
        self._steps = [step]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            return
        with deferred():
            try:
                run_all(reversed(self._steps))
            except Exception as later:
                error.add_note(f"and while it was undone: {later}")
