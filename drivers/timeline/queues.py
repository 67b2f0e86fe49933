"""Command queues and graphs that write the time around each kernel and copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Final, Self

from drivers.base.contracts import Argument, Buffer, Graph, Grid, Param, Program, Signal
from drivers.timeline.file import Facts
from drivers.timeline.tracer import Tracer
from drivers.timeline.tracks import Slice, Stamps, Submission, Track

_graphs: Final = count(1)


class TimedQueue:
    """A queue of a device, with time stamps around the steps of its user."""

    def __init__(self, tracer: Tracer, track: Track) -> None:
        self._slices: list[Slice] = []
        self._begun: Stamps | None = None
        """Its first stamp is built, and the step behind it was refused."""
        self._tracer, self._track, self._queue = tracer, track, track.new_queue()
        self.can_exec, self.can_copy = self._queue.can_exec, self._queue.can_copy
        self._params = False

    def __del__(self) -> None:
        """What was built and never handed over makes room for others."""
        left = len(self._slices) + (self._begun is not None)
        if left:
            self._tracer.hand_over(left)

    def wait(self, signal: Signal, value: int) -> Self:
        """As the device's own."""
        self._queue.wait(signal, value)
        return self

    def barrier(self) -> Self:
        """As the device's own."""
        self._queue.barrier()
        return self

    def timestamp(self, signal: Signal) -> Self:
        """As the device's own."""
        self._queue.timestamp(signal)
        return self

    def signal(self, signal: Signal, value: int) -> Self:
        """As the device's own."""
        self._queue.signal(signal, value)
        return self

    def exec(
        self,
        program: Program,
        args: Sequence[Argument],
        grid: Grid = (1, 1, 1),
        block: Grid | None = None,
        *,
        shared_bytes: int = 0,
    ) -> Self:
        """A kernel, between two stamps."""
        stamps = self._begin()
        self._queue.exec(program, args, grid, block, shared_bytes=shared_bytes)
        facts: Facts = {"grid": "x".join(map(str, grid))}
        if block is not None:
            facts["block"] = "x".join(map(str, block))
        self._end(stamps, program.name, "kernel", facts, args)
        return self

    def copy(self, dst: Buffer | Param, src: Buffer | Param, nbytes: int) -> Self:
        """A copy, between two stamps."""
        stamps = self._begin()
        self._queue.copy(dst, src, nbytes)
        self._end(stamps, "copy", "copy", {"bytes": nbytes}, (dst, src))
        return self

    def _begin(self) -> Stamps | None:
        """Build the stamp before a step."""
        stamps = self._begun
        if stamps is None:
            stamps = self._tracer.take(self._track)
            if stamps is not None:
                self._queue.timestamp(stamps.begin)
        self._begun = stamps
        return stamps

    def _end(
        self,
        stamps: Stamps | None,
        name: str,
        category: str,
        facts: Facts,
        values: Iterable[object],
    ) -> None:
        """Build the one after it."""
        self._begun = None
        self._params = self._params or any(isinstance(value, Param) for value in values)
        if stamps is not None:
            self._queue.timestamp(stamps.end)
            self._slices.append(Slice(name, category, facts, stamps))

    def submit(self) -> None:
        """As the device's own; a signal behind it says when all of it has ended."""
        if self._params or not self._slices:
            self._queue.submit()
            return
        slices, self._slices = self._slices, []
        with self._track.lock:
            marker, value = self._track.next_mark()
            try:
                self._queue.signal(marker, value).submit()
            except BaseException:
                self._tracer.hand_over(len(slices))  # some may run: their signals are not reused
                raise
            work = Submission(marker, value, slices, self._tracer.over)
            self._tracer.began(self._track, work)

    def bind(self) -> TimedGraph:
        """As the device's own."""
        graph = self._queue.bind()
        slices, self._slices, self._params = self._slices, [], False
        self._tracer.hand_over(len(slices))
        return TimedGraph(self._tracer, self._track, graph, slices)


class TimedGraph:
    """A graph whose steps write their times at each replay.

    They are read before the next replay writes them again: that waits for the one before it.
    """

    def __init__(self, tracer: Tracer, track: Track, graph: Graph, slices: list[Slice]) -> None:
        self._tracer, self._track, self._graph = tracer, track, graph
        self._slices = slices
        self._last: Submission | None = None
        number = next(_graphs)
        for one in slices:
            one.facts["graph"] = number

    def _over(self, work: Submission) -> None:
        """The signals stay the graph's."""

    def replay(self, values: Sequence[Buffer | int] = ()) -> None:
        """As the device's own."""
        if not self._tracer.on or not self._slices:
            self._graph.replay(values)
            return
        with self._track.lock:
            if self._last is not None:
                self._tracer.wait_for(self._track, self._last)
            self._graph.replay(values)
            marker, value = self._track.next_mark()
            self._track.new_queue().signal(marker, value).submit()
            self._last = work = Submission(marker, value, self._slices, self._over)
            self._tracer.began(self._track, work)

    def close(self) -> None:
        """As the device's own."""
        self._graph.close()
