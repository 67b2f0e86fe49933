"""What is under way on one queue, and the times that the queue wrote around its steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import RLock

from drivers.base.contracts import CommandQueue, Device, Signal, World
from drivers.timeline.clock import QueueClock
from drivers.timeline.file import Event, Facts, complete


@dataclass(slots=True, eq=False)
class Stamps:
    """Two signals into which a queue writes its time: before a step, and after it."""

    begin: Signal
    end: Signal


@dataclass(slots=True, eq=False)
class Slice:
    """One kernel or copy of a queue."""

    name: str
    category: str
    facts: Facts
    stamps: Stamps


@dataclass(slots=True, eq=False)
class Submission:
    """Slices that were handed over together. They are over when `marker` has `value`."""

    marker: Signal
    value: int
    slices: list[Slice]
    over: Callable[[Submission], None]
    """Called once: their signals may be used again."""


class Track:
    """One queue of a device, one track of the timeline."""

    def __init__(self, device: Device, new_queue: Callable[[], CommandQueue], number: int) -> None:
        self.new_queue, self.number, self.clock = new_queue, number, QueueClock()
        self.lock = RLock()
        """Held while work is handed over: values of the marker reach the queue in order."""
        self.under_way: deque[Submission] = deque()
        self.lost = 0
        """Steps without times: no signals were left for them, or a fault stopped them."""
        self._device = device
        self._most = (1 << device.limits.signal_bits) - 1
        self._marker, self._value = device.new_signal(), 0
        self._stamp_ns = self._drawn_ns = 0
        """The queue's last known time, and where the last slice ends as drawn."""

    def after_fork(self) -> None:
        """In a child: another thread may have held the lock."""
        self.lock = RLock()

    def compare(self, world: World, synchronize: Callable[[], None]) -> None:
        """Compare the queue's clock with the host's; the device is idle."""
        signal = self._device.new_signal()
        self.clock.compare(world, self.new_queue, synchronize, signal)
        self._stamp_ns = max(self._stamp_ns, signal.timestamp_ns)
        signal.close()

    def next_mark(self) -> tuple[Signal, int]:
        """With the lock held: a signal and the value that it gets behind the next work."""
        if self._value == self._most:  # signals do not wrap
            self._marker, self._value = self._device.new_signal(), 0
        self._value += 1
        return self._marker, self._value

    def finished(self) -> Iterator[Submission]:
        """Take out what is over, in order."""
        for _ in range(len(self.under_way)):
            first = self.under_way[0]
            if first.marker.value < first.value:
                return
            yield self.under_way.popleft()

    def give_up(self, last: Submission) -> None:
        """Wait no more for anything up to `last`: a fault may have stopped it."""
        if last not in self.under_way:
            return
        for _ in range(len(self.under_way)):
            work = self.under_way.popleft()
            self.lost += len(work.slices)
            work.over(work)
            if work is last:
                return

    def events(self, work: Submission, pid: int) -> Iterator[Event]:
        """Slices of finished work, in the host's monotonic time."""
        for one in work.slices:
            begin_ns, end_ns = one.stamps.begin.timestamp_ns, one.stamps.end.timestamp_ns
            if not self._stamp_ns <= begin_ns <= end_ns:  # of an earlier use: it never ran
                self.lost += 1
                continue
            self._stamp_ns = end_ns
            # behind the slice before it, also where the clocks were compared in between
            first_ns = max(self.clock.host_ns(begin_ns), self._drawn_ns)
            self._drawn_ns = max(self.clock.host_ns(end_ns), first_ns)
            times_ns = first_ns, self._drawn_ns
            yield complete(one.name, one.category, one.facts, (pid, self.number), times_ns)
