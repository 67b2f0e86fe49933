"""A recorded list of packets in device memory, replayed with one doorbell."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from drivers.base.contracts import Buffer, Program, Signal
from drivers.base.errors import BadArgument, UseAfterFree
from queues.cpu import packets
from queues.cpu_contracts import Follow, Owner, Ring

_NEVER: Final[tuple[Buffer | int, ...]] = (-1,)
"""The values of a graph whose words are not patched: an object that no caller can pass."""


@dataclass(frozen=True, slots=True)
class Patch:
    """Word `at` of the list is `resolve(values[param])`."""

    param: int
    at: int
    resolve: Callable[[Buffer | int], int]


class _Slot:
    """All places of one Param, and the checks that a value for it has to pass."""

    __slots__ = ("checks", "places")

    def __init__(self) -> None:
        self.places: list[int] = []
        self.checks: list[Callable[[Buffer | int], int]] = []

    def fill(self, words: memoryview | array[int], value: Buffer | int) -> None:
        """Write the word of `value` wherever it belongs."""
        word = 0
        for check in self.checks:
            word = check(value)
        for at in self.places:
            words[at] = word


class CpuGraph:
    """Packets bound once. `replay` patches the words of changed Params and runs everything.

    What it recorded must stay alive: a buffer, program or signal that was freed since raises
    UseAfterFree. That is checked only when the device has freed anything since the last time.
    """

    def __init__(
        self,
        owner: Owner,
        ring: Ring,
        words: Sequence[int],
        keep: Sequence[Buffer | Program | Signal],
        patches: Sequence[Patch],
    ) -> None:
        self._owner, self._ring = owner, ring
        self._keep = [*{id(thing): thing for thing in keep}.values()]
        self._slots = [_Slot() for _ in range(max((p.param + 1 for p in patches), default=0))]
        for patch in patches:
            slot = self._slots[patch.param]
            slot.places.append(patch.at)
            if patch.resolve not in slot.checks:
                slot.checks.append(patch.resolve)
        nbytes = len(words) * packets.WORD_BYTES
        self._memory: Buffer | None = owner.alloc(nbytes)
        self._va = self._memory.gpu_va
        self._words = self._memory.view()[:nbytes].cast("Q")
        self._words[:] = array("Q", words)
        self._values: tuple[Buffer | int, ...] = _NEVER if self._slots else ()
        self._mark: object = None

    def replay(self, values: Sequence[Buffer | int] = ()) -> None:
        """Patch what changed and run; `values[i]` fills `Param(i)`.

        Raises: BadArgument, UseAfterFree, before anything runs.
        """
        ring = self._ring
        with ring.lock:
            outer, ring.depth = ring.depth, ring.depth + 1
            try:
                if outer:
                    follow = self._apart(values)
                else:
                    ring.turn += 1
                    if values is not self._values:
                        self._patch(values)
                    if self._owner.freed_mark is not self._mark:
                        self._check_alive()
                    follow = ring.doorbell(self._words, self._va, self._keep)
            finally:
                ring.depth = outer
        if follow is not None:
            follow()

    def _patch(self, values: Sequence[Buffer | int]) -> None:
        """Write the words of every Param whose value is another object than last time."""
        new, old = self._counted(values), self._values
        self._values = _NEVER
        for index, value in enumerate(new):
            if old is _NEVER or old[index] is not value:
                self._slots[index].fill(self._words, value)
        self._values = new

    def _apart(self, values: Sequence[Buffer | int]) -> Follow | None:
        """In a signal handler that may have interrupted a replay of this graph: run a copy."""
        given = self._counted(values)
        words = array("Q", self._words)
        for slot, value in zip(self._slots, given, strict=True):
            slot.fill(words, value)
        self._owner.check_alive([*self._keep, *given])
        return self._ring.submit(words, self._keep)

    def _counted(self, values: Sequence[Buffer | int]) -> tuple[Buffer | int, ...]:
        if self._memory is None:
            raise UseAfterFree("a closed graph was replayed", hint="record it again")
        if values is None or len(values) != len(self._slots):
            raise BadArgument(
                f"{values!r:.200} for {len(self._slots)} Params", hint="pass one value for each"
            )
        return tuple(values)

    def _check_alive(self) -> None:
        """Touch the address of everything named. Raises: UseAfterFree."""
        mark = self._owner.freed_mark
        self._owner.check_alive(self._keep)
        if self._slots:
            self._owner.check_alive(self._values)
        self._mark = mark

    def close(self) -> None:
        """Give the packets' memory back. A second close does nothing."""
        with self._ring.lock:
            memory, self._memory = self._memory, None
            self._keep, self._values, self._mark = [], _NEVER, None
            self._words = memoryview(b"").cast("Q")
        if memory is not None:
            memory.free()
