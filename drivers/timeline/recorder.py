"""One device's part of a timeline: what it was given, with the times that its queues wrote."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from threading import RLock, get_ident
from typing import Final, TypeAlias

from drivers.base import forks
from drivers.base.contracts import Device, World
from drivers.base.deadline import polls
from drivers.base.errors import DeviceError
from drivers.timeline.clock import NS
from drivers.timeline.file import Event, Facts, TimelineFile, complete, named
from drivers.timeline.rows import Batch, Pair, Row

Last: TypeAlias = "list[Batch | None]"
MOST_PAIRS: Final = 4096
"""Of signals outside of graphs. A step for which none is left has no times."""
MOST_EVENTS: Final = 256
"""That wait to be written: a process that is killed loses these."""
FLUSH_S: Final = 1.0
COMPARE_S: Final = 10.0
"""A GPU's oscillator and the host's drift apart by some microseconds a second."""
REPLAY_S: Final = 1.0
"""How long a replay waits for the one before it."""
FIRST_HOST_ROW: Final = 3
MOST_HOST_ROWS: Final = 64
_numbers: Final = count(1)


class Recorder:
    """Keeps pairs of signals, collects what has ended, and writes it."""

    def __init__(self, file: TimelineFile, device: Device, world: World) -> None:
        self.file, self.world, self.lock = file, world, RLock()
        self.device, self.pid = device, next(_numbers)
        self.compute = Row(device, device.compute_queue, 1)
        self.copies = Row(device, device.copy_queue, 2)
        self.rows = self.compute, self.copies
        self._synchronize = device.synchronize  # the device's own: nothing is in front of it yet
        self._free: deque[Pair] = deque()
        self._made = 0
        self._events: list[Event] = []
        self._written_s = world.monotonic_s()
        self._host_rows: dict[int, int] = {}
        """Thread of the host -> row of its copies."""
        self._begin()
        forks.inherit(self)

    @property
    def on(self) -> bool:
        """Whether anything is recorded."""
        return self.file.open

    def after_fork(self) -> None:
        """In a child: the file is the parent's, and closed."""
        self.lock = RLock()
        for row in self.rows:
            row.after_fork()

    def _begin(self) -> None:
        """Name the device and its rows, and compare the clocks."""
        title = f"{self.device.name}: {self.device.arch}"
        self._events.append(named("process_name", (self.pid, 0), title))
        self.compare()
        for row, name in zip(self.rows, ("compute queue", "copy queue"), strict=True):
            within_us = row.clock.error_ns / 1e3
            title = f"{name} (host's time within {within_us:.1f} us)"
            self._events.append(named("thread_name", (self.pid, row.number), title))
        self.flush()

    def compare(self) -> None:
        """Map the clock of each queue to the host's; the device is idle."""
        for row in self.rows:
            signal = self.device.new_signal()
            row.clock.compare(self.world, row.queue, self._synchronize, signal)
            signal.close()

    # Pairs of signals

    def take(self, row: Row) -> Pair | None:
        """For a step that is about to be built; None where it gets no times."""
        with self.lock:
            if not self.on:
                return None
            if not self._free and self._made >= MOST_PAIRS:
                self.collect()
            if self._free:
                return self._free.popleft()
            if self._made >= MOST_PAIRS:
                row.lost += 1
                return None
            self._made += 1
            return Pair(self.device.new_signal(), self.device.new_signal())

    def hand_over(self, number: int) -> None:
        """So many pairs belong to a graph, or are not used again."""
        with self.lock:
            self._made -= number

    def over(self, batch: Batch) -> None:
        """Its signals may be used again."""
        self._free.extend(one.pair for one in batch.slices)

    # What is under way

    def began(self, row: Row, batch: Batch) -> None:
        """It was handed to the row's queue."""
        with self.lock:
            row.under_way.append(batch)
            if len(row.under_way) >= MOST_EVENTS:
                self.collect()

    def wait_for(self, row: Row, batch: Batch) -> None:
        """Return when a graph's last replay has ended; after a second its times are given up."""
        for _ in polls(REPLAY_S, self.world):
            with self.lock:
                self.collect()
                if batch not in row.under_way:
                    return
        with self.lock:
            row.give_up(batch)

    def collect(self) -> None:
        """With the lock held: turn what has ended into events."""
        for row in self.rows:
            for batch in row.finished():
                self._events += row.events(batch, self.pid)
                batch.over(batch)
        late = self.world.monotonic_s() > self._written_s + FLUSH_S
        if len(self._events) >= MOST_EVENTS or late:
            self.flush()

    def flush(self) -> None:
        """Write what has ended."""
        with self.lock:
            events, self._events = self._events, []
            self._written_s = self.world.monotonic_s()
            self.file.write(events)

    def last(self) -> Last:
        """The last batch under way of each row."""
        with self.lock:
            return [row.under_way[-1] if row.under_way else None for row in self.rows]

    def synchronized(self, last: Last) -> None:
        """The device is idle since; `last` was under way before. What has not ended never will."""
        with self.lock:
            self.collect()
            for row, batch in zip(self.rows, last, strict=True):
                row.give_up(batch)
            self.flush()
            idle = not any(row.under_way for row in self.rows)
            if idle and self.world.monotonic_s() > self.compute.clock.read_s + COMPARE_S:
                self.compare()

    @contextmanager
    def host_copy(self, name: str, nbytes: int) -> Iterator[None]:
        """A copy between the host and the device: the call, by the host's clock."""
        begin_ns = int(self.world.monotonic_s() * NS)
        yield
        times_ns = begin_ns, int(self.world.monotonic_s() * NS)
        facts: Facts = {"bytes": nbytes}
        with self.lock:
            place = self.pid, self._host_row()
            self._events.append(complete(name, "copy", facts, place, times_ns))
            self.collect()

    def _host_row(self) -> int:
        """The row of the calling thread's copies."""
        thread, known = get_ident(), self._host_rows
        if thread not in known and len(known) < MOST_HOST_ROWS:
            known[thread] = FIRST_HOST_ROW + len(known)
            title = f"copies of host thread {len(known)} (whole calls)"
            self._events.append(named("thread_name", (self.pid, known[thread]), title))
        return known.get(thread, FIRST_HOST_ROW + MOST_HOST_ROWS)

    def close(self) -> None:
        """Write what has ended, and how much has no times; the device is still open."""
        with self.lock:
            with suppress(DeviceError):  # of a lost device: its own close reports it
                self.collect()
            lost = sum(row.lost + sum(len(one.slices) for one in row.under_way)
                       for row in self.rows)  # fmt: skip
            if lost:
                self._events.append({
                    "name": f"{lost} steps without times", "ph": "i", "s": "p", "args": {},
                    "ts": self.world.monotonic_s() * 1e6, "pid": self.pid, "tid": 1,
                })  # fmt: skip
            for row in self.rows:
                row.under_way.clear()
                row.lost = 0
            self.flush()
