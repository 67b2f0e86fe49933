"""When packets are submitted: not before what they wait for is on its way.

The GPU has one command processor. Where its kernel driver gives all contexts one ring buffer, work
runs in the order of submission: a wait for something submitted later would never end, and counts as
a hang after half a second or two. So a submission that waits for a signal is held until that value
is there, or is signalled by a submission before it. The command processor then waits for it.

What lets a held submission go is another submission, or the host that sets a signal: no thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import RLock
from typing import NamedTuple, TypeAlias

from drivers.base import forks
from queues.qcom.words import Sync

Submit: TypeAlias = Callable[[], object]
SignalAt: TypeAlias = Callable[[int], "int | None"]


class Held(NamedTuple):
    """A submission that waits."""

    syncs: Sequence[Sync]
    submit: Submit


class Lane:
    """The submissions of one queue, in order."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.held: deque[Held] = deque()
        gate.lanes.append(self)

    def submit(self, submit: Submit, syncs: Sequence[Sync] = ()) -> None:
        """Submit now, or later. Raises: what the kernel refuses, of what is submitted now."""
        gate = self._gate
        with gate.lock:
            if self.held or not gate.may_go(syncs):
                self.held.append(Held(syncs, submit))
                return
            submit()
            if syncs:
                gate.promise(syncs)
                gate.let_go()

    def close(self) -> None:
        """Forget what is held."""
        with self._gate.lock:
            self.held.clear()
            if self in self._gate.lanes:
                self._gate.lanes.remove(self)


class Gate:
    """Of one device. `signal_at` reads a signal's value."""

    def __init__(self, signal_at: SignalAt) -> None:
        self._signal_at = signal_at
        self._promised: dict[int, int] = {}
        """Address of a signal -> the highest value that submitted work will give it."""
        self.lanes: list[Lane] = []
        self.after_fork()
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the lock."""
        self.lock = RLock()

    def may_go(self, syncs: Sequence[Sync]) -> bool:
        """Whether everything that these wait for is there or on its way."""
        own: dict[int, int] = {}
        for sync in syncs:
            if sync.signals:
                own[sync.va] = sync.value
                continue
            coming = max(own.get(sync.va, 0), self._promised.get(sync.va, 0))
            if coming < sync.value and (self._signal_at(sync.va) or 0) < sync.value:
                return False
        return True

    def promise(self, syncs: Sequence[Sync]) -> None:
        """These were submitted."""
        promised = self._promised
        for sync in syncs:
            if sync.signals:
                promised[sync.va] = max(promised.get(sync.va, 0), sync.value)

    def forget(self, va: int) -> None:
        """Another signal is at this address now."""
        self._promised.pop(va, None)

    def let_go(self) -> None:
        """Submit what need not be held any more."""
        with self.lock:
            for _ in range(sum(len(lane.held) for lane in self.lanes)):
                gone = [self._first(lane) for lane in self.lanes]
                if not any(gone):
                    break

    def _first(self, lane: Lane) -> bool:
        """Submit the first held one of a queue, if it may go."""
        if not lane.held or not self.may_go(lane.held[0].syncs):
            return False
        first = lane.held[0]
        try:
            first.submit()
        finally:
            lane.held.popleft()  # last: until then later submissions of the queue wait for the lock
        self.promise(first.syncs)
        return True
