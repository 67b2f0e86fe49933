"""Streams and events. Work is done when somebody asks whether it is, in any order that is allowed.

Each question runs a few pieces of work of any stream, chosen by a generator with a fixed seed. So
nothing is done early, and two streams without an event between them run in an order that a program
cannot count on.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from boards.cuda import header
from boards.cuda.state import Choices, Context, Refused, State, out
from boards.machine import host

_SEED, _BURST = 14, 8
LEGACY, PER_THREAD = 1, 2
_NON_BLOCKING = 1
_NO_TIMING = 2
_EVENT_FLAGS = (0, 1, _NO_TIMING)
"""CU_EVENT_DEFAULT, CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING."""


class Fault(Exception):
    """Work failed: the context is lost."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass(eq=False)
class Record:
    """One cuEventRecord: when everything before it was done."""

    done: bool = False
    time_s: float = 0.0


@dataclass(eq=False)
class Work:
    """A piece of work of a stream."""

    run: Callable[[], None]
    touches: list[tuple[int, int]] = field(default_factory=list)
    """(address, bytes) that it may use."""
    holds: tuple[object, ...] = ()
    """Modules and graphs that it may use."""
    after: Record | None = None
    """What it waits for."""


@dataclass(eq=False)
class Stream:
    """An order of work."""

    context: Context
    work: deque[Work] = field(default_factory=deque)


@dataclass(eq=False)
class Event:
    """A place in a stream."""

    context: Context
    record: Record | None = None
    timed: bool = True


class Streams:
    """The functions of streams and events."""

    def __init__(self, state: State) -> None:
        self._state, self._choices = state, Choices(_SEED)
        self.held = False
        """Whether nothing runs: the GPU is busy with somebody else's work."""

    # Work

    def stream(self, handle: int, context: Context | None = None) -> Stream:
        """A stream of the current context. Raises: Refused."""
        context = self._state.current() if context is None else context
        if handle in (0, LEGACY, PER_THREAD):
            made: Stream = context.streams.setdefault(handle or LEGACY, Stream(context))
            return made
        found = self._state.get(Stream, handle)
        if found.context.lost:
            raise Refused(found.context.lost)
        return found

    def add(self, handle: int, work: Work) -> None:
        """Put work into a stream of the current context. Raises: Refused."""
        stream = self.stream(handle)
        if stream.context is not self._state.current():
            raise self._state.refuse(
                header.INVALID_HANDLE, "stream of another context", f"{handle:#x}"
            )
        stream.work.append(work)

    def all(self) -> list[Stream]:
        """Every stream that lives."""
        contexts = [one.context for one in self._state.devices if one.context is not None]
        return [stream for context in contexts for stream in context.streams.values()]

    def uses(self, va: int, nbytes: int) -> bool:
        """Whether work that is not done may touch a range."""
        return any(
            start < va + nbytes and va < start + count
            for stream in self.all() for work in stream.work for start, count in work.touches
        )  # fmt: skip

    def holds(self, thing: object) -> bool:
        """Whether work that is not done uses an object."""
        return any(
            one is thing for stream in self.all() for work in stream.work for one in work.holds
        )

    def progress(self, most: int | None = None) -> None:
        """Do a few pieces of work, unless it is held."""
        if self.held:
            return
        count = self._choices.below(_BURST) if most is None else most
        for _ in range(count):
            ready = [
                stream for stream in self.all()
                if stream.work and (stream.work[0].after is None or stream.work[0].after.done)
            ]  # fmt: skip
            if not ready:
                return
            self._one(ready[self._choices.below(len(ready))])

    def _one(self, stream: Stream) -> None:
        work = stream.work.popleft()
        try:
            work.run()
        except Fault as fault:
            context = stream.context
            context.lost = fault.code
            self._state.notes.append(str(fault))
            for one in context.streams.values():
                one.work.clear()

    # Functions

    def create(self, at: int, flags: int) -> None:
        """cuStreamCreate."""
        context = self._state.current()
        if flags not in (0, _NON_BLOCKING):
            raise self._state.refuse(header.INVALID_VALUE, "flags", f"of a stream: {flags:#x}")
        made = Stream(context)
        handle = self._state.new(made, context)
        context.streams[handle] = made
        out(at, handle, 8)

    def destroy(self, handle: int) -> None:
        """cuStreamDestroy."""
        stream = self._state.end(Stream, handle)
        if stream.work and not stream.context.lost:
            self._state.find("stream destroyed with work", f"{len(stream.work)} pieces")
        del stream.context.streams[handle]
        if stream.context.lost:
            raise Refused(stream.context.lost)

    def query(self, handle: int) -> None:
        """cuStreamQuery."""
        stream = self.stream(handle)
        if stream.work:
            self.progress()
        if stream.context.lost:
            raise Refused(stream.context.lost)
        if stream.work:
            raise Refused(header.NOT_READY)

    def wait_event(self, handle: int, event: int, flags: int) -> None:
        """cuStreamWaitEvent."""
        found, stream = self._state.get(Event, event), self.stream(handle)
        if flags:
            raise self._state.refuse(header.INVALID_VALUE, "flags", f"of a wait: {flags:#x}")
        if found.record is None:
            self._state.find("event that was never recorded", "cuStreamWaitEvent")
            return
        stream.work.append(Work(lambda: None, after=found.record))

    def event_create(self, at: int, flags: int) -> None:
        """cuEventCreate."""
        context = self._state.current()
        if flags not in _EVENT_FLAGS:
            raise self._state.refuse(header.INVALID_VALUE, "flags", f"of an event: {flags:#x}")
        out(at, self._state.new(Event(context, timed=flags != _NO_TIMING), context), 8)

    def event_destroy(self, handle: int) -> None:
        """cuEventDestroy."""
        event = self._state.end(Event, handle)
        if event.context.lost:
            raise Refused(event.context.lost)

    def event_record(self, handle: int, stream: int) -> None:
        """cuEventRecord."""
        event, found = self._state.get(Event, handle), self.stream(stream)
        if event.context is not found.context:
            raise self._state.refuse(
                header.INVALID_HANDLE, "event of another context", f"{handle:#x}"
            )
        record = event.record = Record()

        def run() -> None:
            record.done, record.time_s = True, time.monotonic()

        found.work.append(Work(run))

    def event_query(self, handle: int) -> None:
        """cuEventQuery."""
        event = self._state.get(Event, handle)
        if event.record is not None and not event.record.done and not event.context.lost:
            self.progress()
        if event.context.lost:
            raise Refused(event.context.lost)
        if event.record is not None and not event.record.done:
            raise Refused(header.NOT_READY)

    def elapsed(self, at: int, start: int, end: int) -> None:
        """cuEventElapsedTime."""
        times = []
        for handle in (start, end):
            event = self._state.get(Event, handle)
            if event.context.lost:
                raise Refused(event.context.lost)
            if event.record is None or not event.timed:
                rule = "event that was never recorded" if event.timed else "event without a time"
                raise self._state.refuse(header.INVALID_HANDLE, rule, "cuEventElapsedTime")
            if not event.record.done:
                self._state.find("time of an event that is not done", f"{handle:#x}")
                raise Refused(header.NOT_READY)
            times.append(event.record.time_s)
        host.view(at, 4)[:] = struct.pack("<f", (times[1] - times[0]) * 1e3)
