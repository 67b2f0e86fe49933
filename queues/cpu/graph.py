"""A recorded list of packets in device memory, replayed with one doorbell."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate

from drivers.base.contracts import Buffer
from queues.builder import Built, Patch, Resolve
from queues.cpu import packets
from queues.cpu.contracts import CpuOwner, Follow, Ring
from queues.cpu.packets import Words
from queues.graph import NEVER, Recording


class _Slot:
    """All places of one Param, and the checks that a value for it has to pass."""

    __slots__ = ("checks", "places")

    def __init__(self, patches: Sequence[Patch], places: list[int]) -> None:
        self.places = places
        self.checks: list[Resolve] = []
        for patch in patches:
            if patch.resolve not in self.checks:
                self.checks.append(patch.resolve)

    def fill(self, words: memoryview | array[int], value: Buffer | int) -> None:
        """Write the word of `value` wherever it belongs."""
        word = 0
        for check in self.checks:
            word = check(value)
        for at in self.places:
            words[at] = word


class CpuGraph(Recording[Words]):
    """Packets bound once. `replay` patches the words of changed Params and runs everything.

    What was freed is looked for only when the device has freed anything since the last time.
    """

    def __init__(self, owner: CpuOwner, ring: Ring, built: Built[Words]) -> None:
        super().__init__(built)
        self._owner, self._ring = owner, ring
        starts = [*accumulate(map(len, built.steps), initial=0)]
        self._slots = [
            _Slot(
                patches,
                [starts[p.step] + packets.place(built.steps[p.step], p.number) for p in patches],
            )
            for patches in self._params
        ]
        nbytes = starts[-1] * packets.WORD_BYTES
        self._memory: Buffer | None = owner.alloc(nbytes)
        self._va = self._memory.gpu_va
        self._words = self._memory.view()[:nbytes].cast("Q")
        self._words[:] = array("Q", packets.joined(built.steps))
        self._values: tuple[Buffer | int, ...] = NEVER if self._slots else ()
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
        self._values = NEVER
        for index, value in enumerate(new):
            if old is NEVER or old[index] is not value:
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
            super().close()
            memory, self._memory = self._memory, None
            self._values, self._mark = NEVER, None
            self._words = memoryview(b"").cast("Q")
        if memory is not None:
            memory.free()
