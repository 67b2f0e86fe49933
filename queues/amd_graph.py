"""A recording in memory that host and GPU see, replayed with one doorbell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from drivers.base.contracts import Buffer, Program, Signal
from drivers.base.errors import BadArgument, UseAfterFree
from queues.amd_contracts import Bound, ComputeOwner, Item

_NEVER: Final[tuple[Buffer | int, ...]] = (-1,)
"""The values of a graph whose words are not patched: an object that no caller can pass."""


@dataclass(frozen=True, slots=True)
class Patch:
    """Argument `number` of step `item` is `values[param]`."""

    param: int
    item: int
    number: int


class AmdGraph:
    """Steps bound once. `replay` patches the arguments of changed Params and runs everything.

    Arguments that change are only written once the last replay is done. What it recorded must stay
    alive: a buffer, program or signal that was freed since raises UseAfterFree.
    """

    def __init__(
        self,
        owner: ComputeOwner,
        items: Sequence[Item],
        keep: Sequence[Buffer | Program | Signal],
        patches: Sequence[Patch],
    ) -> None:
        self._owner = owner
        self._keep = [*{id(thing): thing for thing in keep}.values()]
        self._names = [item.program.name for item in items if item.program is not None]
        self._bound: Bound | None = owner.bind(items)
        self._places: list[list[int]] = [
            [] for _ in range(max((patch.param + 1 for patch in patches), default=0))
        ]
        """For every Param, which 64-bit words of the memory it fills."""
        for patch in patches:
            self._places[patch.param].append(self._bound.place(patch.item, patch.number))
        self._values: tuple[Buffer | int, ...] = _NEVER if patches else ()
        self._mark: object = None

    @property
    def names(self) -> list[str]:
        """The kernels in it."""
        return self._names

    def replay(self, values: Sequence[Buffer | int] = ()) -> None:
        """Patch what changed and run; `values[i]` fills `Param(i)`.

        Raises: BadArgument, UseAfterFree, before anything runs.
        """
        bound = self._bound
        if bound is None:
            raise UseAfterFree("a closed graph was replayed", hint="record it again")
        with bound.lock:
            if values is not self._values:
                self._patch(bound, values)
            if self._owner.freed_mark is not self._mark:
                self._check_alive()
            bound.play()

    def _patch(self, bound: Bound, values: Sequence[Buffer | int]) -> None:
        """Write the words of every Param whose value is another object than last time."""
        places, old = self._places, self._values
        if values is None or len(values) != len(places):
            raise BadArgument(
                f"{values!r:.200} for {len(places)} Params", hint="pass one value for each"
            )
        new = tuple(values)
        changed = [
            (index, self._owner.argument_word(value))
            for index, value in enumerate(new)
            if old is _NEVER or old[index] is not value
        ]
        if changed:
            self._values = _NEVER
            bound.settle()
            words = bound.words
            for index, word in changed:
                for at in places[index]:
                    words[at] = word
        self._values = new

    def _check_alive(self) -> None:
        """Touch the address of everything named. Raises: UseAfterFree."""
        mark = self._owner.freed_mark
        self._owner.check_alive(self._keep)
        if self._places:
            self._owner.check_alive(self._values)
        self._mark = mark

    def close(self) -> None:
        """Give its memory back once it is done. A second close does nothing."""
        bound, self._bound = self._bound, None
        self._keep, self._values, self._mark = [], _NEVER, None
        if bound is not None:
            bound.close()
