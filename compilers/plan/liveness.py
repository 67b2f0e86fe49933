"""Lifetimes of the values of a list of steps, and the memory that they take."""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping, Sequence
from typing import TypeVar

Value = TypeVar("Value", bound=Hashable)


def last_uses(steps: Sequence[Sequence[Value]], keep: Container[Value]) -> list[tuple[Value, ...]]:
    """For each step, the values it names that no later one does, less those in `keep`."""
    last = {value: number for number, values in enumerate(steps) for value in values}
    return [
        tuple(value for value in dict.fromkeys(values) if last[value] == n and value not in keep)
        for n, values in enumerate(steps)
    ]


def peak_bytes(
    steps: Sequence[Sequence[Value]], sizes: Mapping[Value, int], keep: Container[Value]
) -> int:
    """The most bytes alive at once. A value of `sizes` lives from the first step that names it to
    the last, or to the end where it is in `keep`; values without a size do not count."""
    alive = most = 0
    seen: set[Value] = set()
    for values, dead in zip(steps, last_uses(steps, keep), strict=True):
        fresh = set(values) - seen
        seen |= fresh
        alive += sum(sizes.get(value, 0) for value in fresh)
        most = max(most, alive)
        alive -= sum(sizes.get(value, 0) for value in dead)
    return most
