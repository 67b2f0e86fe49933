"""A recording in memory that host and GPU see, replayed with one doorbell: of any vendor.

The device brings `Bound`: the recording in one or more copies, and how it is run.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import is_
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from drivers.base.contracts import Buffer
from drivers.base.errors import DeviceTimeout
from queues.builder import Built, Owner, Patch, Step
from queues.graph import NEVER, Recording, closed, wrong_count

MOST_TRIES: Final = 10_000
"""Attempts to find a free copy, where other threads replay the same graph."""
_TRIES: Final = range(MOST_TRIES)
LEAST_ROW: Final = 16
"""Fewest words at equal distances that are stored faster together than one by one."""


WORD64_BYTES: Final = 8
_CODES: Final = {1: "B", 2: "H", 4: "I", WORD64_BYTES: "Q"}


class Copy(Protocol):
    """A recording in memory that host and GPU see, with arguments of its own."""

    words: Mapping[int, memoryview]
    """Its memory as words of 8 bytes, and of what else its arguments have."""
    given: list[int]
    """The words of all Params that are in it; empty: none yet."""
    packing: bool
    """Whether it is being patched or replayed."""


class Bound(Protocol):
    """A recording in one or more copies."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Of what runs it."""

    def place(self, item: int, number: int) -> tuple[int, int]:
        """(bytes of argument `number` of step `item`, which word of so many bytes it is)."""

    @property
    def recent(self) -> Copy:
        """The copy that was prepared last."""

    def prepare(self, given: list[int], patch: Callable[[Any, list[int]], None]) -> Copy | None:
        """With the lock held: a copy that has these words, patched where none has; else None.

        Its `given` is `given` unless a signal handler patched it since.
        """

    def settle(self) -> None:
        """Return once a copy may be free."""

    def play(self, copy: Any) -> None:
        """With the lock held: run it, with `packing` True. Raises: UseAfterFree."""

    def close(self) -> None:
        """Give the memory back once it is done."""


Step_contra = TypeVar("Step_contra", contravariant=True)


class Binder(Owner, Protocol[Step_contra]):
    """The device of a graph."""

    def argument_words(self, values: Sequence[Buffer | int]) -> list[int]:
        """The 64-bit words of arguments. Raises: BadArgument, UseAfterFree."""

    def bind(self, items: Sequence[Step_contra]) -> Bound:
        """Write the steps to memory once."""


class Places:
    """Which words of a recording a Param fills: rows of the same distance, and single ones.

    A Param of many steps of one kernel fills rows, each of which is one store.
    """

    __slots__ = ("_code", "_mask", "_nbytes", "rows", "single")

    def __init__(self, words: Sequence[int], nbytes: int = WORD64_BYTES) -> None:
        """`words` of so many bytes, ordered so that those of a row are adjacent."""
        self._code, self._mask, self._nbytes = _CODES[nbytes], (1 << 8 * nbytes) - 1, nbytes
        self.single: list[int] = []
        self.rows: list[tuple[slice, int]] = []
        """(the words, how many)."""
        first = 0
        for at in range(1, len(words) + 1):
            step = words[first + 1] - words[first] if at - first > 1 else 0
            if at < len(words) and words[at] - words[at - 1] == (step or words[at] - words[first]):
                continue
            if at - first < LEAST_ROW or step < 1:
                self.single += words[first:at]
            else:
                self.rows.append((slice(words[first], words[at - 1] + 1, step), at - first))
            first = at

    def fill(self, words: Mapping[int, memoryview], word: int) -> None:
        """Store `word`, cut to their size, in all of them."""
        memory, word = words[self._nbytes], word & self._mask
        for at in self.single:
            memory[at] = word
        for row, count in self.rows:
            memory[row] = array(self._code, (word,)) * count


def places_of(bound: Bound, patches: Sequence[Patch]) -> list[Places]:
    """The words that one Param fills, by their size."""
    found: dict[int, list[int]] = defaultdict(list)
    for patch in sorted(patches, key=_row):
        nbytes, word = bound.place(patch.step, patch.number)
        found[nbytes].append(word)
    return [Places(words, nbytes) for nbytes, words in found.items()]


_Last: TypeAlias = tuple[tuple[Any, ...], list[int], object]
"""Values of a replay, their words, and the owner's `freed_mark` when all of them were alive."""


class BoundGraph(Recording[Step]):
    """Steps bound once. `replay` patches the arguments of changed Params and runs everything.

    Arguments that change are written to a copy of the recording that no replay under way uses.
    There are a few, so that the next replay is prepared while the GPU runs the last ones.
    """

    def __init__(self, owner: Binder[Step], built: Built[Step]) -> None:
        super().__init__(built)
        self._owner = owner
        bound = owner.bind(built.steps)
        self._bound: Bound | None = bound
        self._places = [places_of(bound, patches) for patches in self._params]
        """Of every Param."""
        self._last: _Last = (NEVER if built.patches else (), [], None)

    def replay(self, values: Sequence[Buffer | int] = ()) -> None:
        """Patch what changed and run; `values[i]` fills `Param(i)`.

        Raises: BadArgument, UseAfterFree, before anything runs; Unsupported in a signal handler
        that interrupted a replay of it, where both need the same copy.
        """
        bound = self._bound
        if bound is None:
            raise closed()
        for _ in _TRIES:
            with bound.lock:
                known, given, mark = self._last
                if (
                    self._owner.freed_mark is not mark
                    or values is None
                    or len(values) != len(known)
                    or not all(map(is_, values, known))
                ):
                    given = self._checked(values)
                recent = bound.recent
                ready = recent.given is given and not recent.packing
                copy = recent if ready else bound.prepare(given, self._patch)
                if copy is not None and copy.given is given and not copy.packing:
                    copy.packing = True  # no handler can run since it was False
                    try:
                        bound.play(copy)
                    finally:
                        copy.packing = False
                    return
            if copy is None:
                bound.settle()
        raise DeviceTimeout(
            f"{MOST_TRIES} times others replayed a graph first", hint="bind one for each thread"
        )

    def _checked(self, values: Sequence[Buffer | int]) -> list[int]:
        """The words of these values, checked that nothing they name was freed."""
        owner = self._owner
        now = owner.freed_mark
        if values is None or len(values) != len(self._places):
            raise wrong_count(values, len(self._places))
        if now is not self._last[2]:
            owner.check_alive(self._keep)
        new = tuple(values)
        given = owner.argument_words(new)
        self._last = new, given, now
        return given

    def _patch(self, copy: Copy, given: list[int]) -> None:
        """Write the words of every Param that has another one in this copy."""
        words, old, copy.given = copy.words, copy.given, []
        for places, word, before in zip(self._places, given, old or given, strict=True):
            if word != before or not old:
                for some in places:
                    some.fill(words, word)
        copy.given = given

    def close(self) -> None:
        """Give its memory back once it is done. A second close does nothing."""
        bound, self._bound = self._bound, None
        super().close()
        self._last = NEVER, [], None
        if bound is not None:
            bound.close()


def _row(patch: Patch) -> tuple[int, int]:
    """The order in which the words of a row are adjacent."""
    return patch.number, patch.step
