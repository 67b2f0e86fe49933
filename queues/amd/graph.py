"""A recording in memory that host and GPU see, replayed with one doorbell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Final, TypeAlias

from drivers.base.contracts import Buffer, Program, Signal
from drivers.base.errors import BadArgument, DeviceTimeout, UseAfterFree
from queues.amd.contracts import Bound, ComputeOwner, Copy, Item

_NEVER: Final[tuple[Any, ...]] = (object(),)
"""The values of a graph that was not replayed yet: an object that no caller can pass."""
MOST_TRIES: Final = 10_000
"""To find a copy that is free, where other threads replay the same graph."""


@dataclass(frozen=True, slots=True)
class Patch:
    """Argument `number` of step `item` is `values[param]`."""

    param: int
    item: int
    number: int


_Last: TypeAlias = tuple[tuple[Any, ...], list[int], object]
"""Values of a replay, their words, and the owner's `freed_mark` when all of them were alive."""


class AmdGraph:
    """Steps bound once. `replay` patches the arguments of changed Params and runs everything.

    Arguments that change are written to a copy of the recording that no replay under way uses;
    there are a few, so that the next replay is prepared while the GPU is at the last ones. What it
    recorded must stay alive: a buffer, program or signal that was freed since raises UseAfterFree.
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
        self._last: _Last = (_NEVER if patches else (), [], None)

    @property
    def names(self) -> list[str]:
        """The kernels in it."""
        return self._names

    def replay(self, values: Sequence[Buffer | int] = ()) -> None:
        """Patch what changed and run; `values[i]` fills `Param(i)`.

        Raises: BadArgument, UseAfterFree, before anything runs; Unsupported in a signal handler
        that interrupted a replay of it, where it needs what that one uses.
        """
        bound = self._bound
        if bound is None:
            raise UseAfterFree("a closed graph was replayed", hint="record it again")
        for _ in range(MOST_TRIES):
            with bound.lock:
                known, given, mark = self._last
                if values is not known or self._owner.freed_mark is not mark:
                    given = self._checked(values)
                copy = bound.take(given)
                if copy is not None:
                    try:
                        if copy.given != given:
                            self._patch(copy, given)
                        bound.play(copy)
                    finally:
                        copy.packing = False
                    return
            bound.settle()
        raise DeviceTimeout(
            f"{MOST_TRIES} times others replayed a graph first", hint="bind one for each thread"
        )

    def _checked(self, values: Sequence[Buffer | int]) -> list[int]:
        """The words of these values; nothing named was freed."""
        owner = self._owner
        now = owner.freed_mark
        known, given, mark = self._last
        if values is None or len(values) != len(self._places):
            raise BadArgument(
                f"{values!r:.200} for {len(self._places)} Params", hint="pass one value for each"
            )
        if now is not mark:
            owner.check_alive(self._keep)
        elif all(map(is_, values, known)):
            return given
        new = tuple(values)
        given = owner.argument_words(new)
        self._last = new, given, now
        return given

    def _patch(self, copy: Copy, given: list[int]) -> None:
        """Write the words of every Param that has another one in this copy."""
        words, old, copy.given = copy.words, copy.given, []
        for index, places in enumerate(self._places):
            word = given[index]
            if not old or old[index] != word:
                for at in places:
                    words[at] = word
        copy.given = given

    def close(self) -> None:
        """Give its memory back once it is done. A second close does nothing."""
        bound, self._bound = self._bound, None
        self._keep, self._last = [], (_NEVER, [], None)
        if bound is not None:
            bound.close()
