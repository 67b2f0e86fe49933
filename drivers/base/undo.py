"""Giving things back: what an opening that failed has done, and everything at closing.

Every step has its turn, whatever the others do; no error is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Self, TypeAlias

Step: TypeAlias = Callable[[], object]


def run_all(steps: Iterable[Step]) -> None:
    """Run every step. Raises: the first error, with the others as its notes."""
    first: Exception | None = None
    for step in steps:
        try:
            step()
        except Exception as error:
            if first is None:
                first = error
            else:
                first.add_note(f"and then: {error}")
    if first is not None:
        raise first


class Undo:
    """What was done in a `with` block, undone in reverse order when the block fails."""

    def __init__(self) -> None:
        self._steps: list[Step] = []

    def add(self, step: Step) -> None:
        """How to undo what was just done."""
        self._steps.append(step)

    def hand_over(self, step: Step) -> None:
        """From here on `step` undoes everything done so far."""
        self._steps = [step]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            return
        try:
            run_all(reversed(self._steps))
        except Exception as later:
            error.add_note(f"and while it was undone: {later}")
