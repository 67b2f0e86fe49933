"""One device's part of a timeline: what it was given, with the times that its queues wrote."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from threading import RLock, get_ident
from typing import Final

from drivers.base import forks
from drivers.base.contracts import Device, World
from drivers.base.deadline import polls
from drivers.base.errors import DeviceError
from drivers.timeline.clock import NS
from drivers.timeline.file import Event, Facts, TimelineFile, complete, titled
from drivers.timeline.tracks import Stamps, Submission, Track

MOST_STAMPS: Final = 4096
"""Steps outside of graphs that have signals at one time; any more have no times."""
MOST_EVENTS: Final = 256
"""That wait to be written: a process that is killed loses these."""
FLUSH_S: Final = 1.0
COMPARE_S: Final = 10.0
"""A GPU's oscillator and the host's drift apart by some microseconds a second."""
REPLAY_S: Final = 1.0
"""How long a replay waits for the one before it."""
FIRST_HOST_TRACK: Final = 3
MOST_HOST_TRACKS: Final = 64
_numbers: Final = count(1)


class Tracer:
    """Keeps signals for time stamps, collects what has ended, and writes it."""

    def __init__(self, file: TimelineFile, device: Device, world: World) -> None:
        self.file, self.world, self.lock = file, world, RLock()
        self.device, self.pid = device, next(_numbers)
        self.compute = Track(device, device.compute_queue, 1)
        self.copies = Track(device, device.copy_queue, 2)
        self.tracks = self.compute, self.copies
        self._synchronize = device.synchronize  # the device's own: nothing is in front of it yet
        self._free: deque[Stamps] = deque()
        self._made = 0
        self._events: list[Event] = []
        self._written_s = world.monotonic_s()
        self._host_tracks: dict[int, int] = {}
        """Thread of the host -> track of its copies."""
        self._begin()
        forks.inherit(self)

    @property
    def on(self) -> bool:
        """Whether anything is recorded."""
        return self.file.open

    def after_fork(self) -> None:
        """In a child: the file is the parent's, and closed."""
        self.lock = RLock()
        for track in self.tracks:
            track.after_fork()

    def _begin(self) -> None:
        """Name the device and its tracks, and compare the clocks."""
        title = f"{self.device.name}: {self.device.arch}"
        self._events.append(titled("process_name", (self.pid, 0), title))
        self.compare()
        for track, name in zip(self.tracks, ("compute queue", "copy queue"), strict=True):
            within_us = track.clock.error_ns / 1e3
            title = f"{name} (host's time within {within_us:.1f} us)"
            self._events.append(titled("thread_name", (self.pid, track.number), title))
        self.flush()

    def compare(self) -> None:
        """Map the clock of each queue to the host's; the device is idle."""
        for track in self.tracks:
            track.compare(self.world, self._synchronize)

    # Signals for time stamps

    def take(self, track: Track) -> Stamps | None:
        """For a step that is about to be built; None where it gets no times."""
        with self.lock:
            if not self.on:
                return None
            if not self._free and self._made >= MOST_STAMPS:
                self.collect()
            if self._free:
                return self._free.popleft()
            if self._made >= MOST_STAMPS:
                track.lost += 1
                return None
            self._made += 1
            return Stamps(self.device.new_signal(), self.device.new_signal())

    def hand_over(self, number: int) -> None:
        """So many belong to a graph, or are not used again."""
        with self.lock:
            self._made -= number

    def over(self, work: Submission) -> None:
        """Let the stamp signals of a finished submission be used again."""
        self._free.extend(one.stamps for one in work.slices)

    # What is under way

    def began(self, track: Track, work: Submission) -> None:
        """It was handed to the track's queue."""
        with self.lock:
            track.under_way.append(work)
            if len(track.under_way) >= MOST_EVENTS or self._late:
                self.collect()

    def wait_for(self, track: Track, work: Submission) -> None:
        """Return when a graph's last replay has ended; after a second its times are work up."""
        for _ in polls(REPLAY_S, self.world):
            with self.lock:
                self.collect()
                if work not in track.under_way:
                    return
        with self.lock:
            track.give_up(work)

    def collect(self) -> None:
        """With the lock held: turn what has ended into events."""
        for track in self.tracks:
            for work in track.finished():
                self._events += track.events(work, self.pid)
                work.over(work)
        if len(self._events) >= MOST_EVENTS or self._late:
            self.flush()

    @property
    def _late(self) -> bool:
        """Whether the last write was some time ago."""
        return self.world.monotonic_s() > self._written_s + FLUSH_S

    def flush(self) -> None:
        """Write what has ended."""
        with self.lock:
            events, self._events = self._events, []
            self._written_s = self.world.monotonic_s()
            self.file.write(events)

    def synchronized(self) -> None:
        """The device was idle: write what has ended, and compare the clocks now and then."""
        with self.lock:
            self.collect()
            self.flush()
            if self.world.monotonic_s() > self.compute.clock.read_s + COMPARE_S:
                self._compare_again()

    def _compare_again(self) -> None:
        """Unless there is work under way, or a thread is handing some over."""
        held = [track for track in self.tracks if track.lock.acquire(blocking=False)]
        try:
            if held == [*self.tracks] and not any(track.under_way for track in held):
                self.compare()
        finally:
            for track in held:
                track.lock.release()

    @contextmanager
    def host_copy(self, name: str, memory: memoryview) -> Iterator[None]:
        """A copy between the host and the device: the call, by the host's clock."""
        begin_ns = int(self.world.monotonic_s() * NS)
        yield
        times_ns = begin_ns, int(self.world.monotonic_s() * NS)
        facts: Facts = {"bytes": memory.nbytes}
        with self.lock:
            place = self.pid, self._host_track()
            self._events.append(complete(name, "copy", facts, place, times_ns))
            self.collect()

    def _host_track(self) -> int:
        """The track of the calling thread's copies."""
        thread, known = get_ident(), self._host_tracks
        if thread not in known and len(known) < MOST_HOST_TRACKS:
            known[thread] = FIRST_HOST_TRACK + len(known)
            title = f"copies of host thread {len(known)} (whole calls)"
            self._events.append(titled("thread_name", (self.pid, known[thread]), title))
        return known.get(thread, FIRST_HOST_TRACK + MOST_HOST_TRACKS)

    def close(self) -> None:
        """Write what has ended, and how much has no times; the device is still open."""
        with self.lock:
            with suppress(DeviceError):  # of a lost device: its own close reports it
                self.collect()
            lost = sum(track.lost + sum(len(one.slices) for one in track.under_way)
                       for track in self.tracks)  # fmt: skip
            if lost:
                self._events.append({
                    "name": f"{lost} steps without times", "ph": "i", "s": "p", "args": {},
                    "ts": self.world.monotonic_s() * 1e6, "pid": self.pid, "tid": 1,
                })  # fmt: skip
            for track in self.tracks:
                track.under_way.clear()
                track.lost = 0
            self.flush()
