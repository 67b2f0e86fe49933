"""Command queues and graphs that write the time around each kernel and copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Final, Self

from drivers.base.contracts import (
    Argument,
    Buffer,
    Graph,
    Grid,
    Param,
    Program,
    Signal,
)
from drivers.timeline.file import Facts
from drivers.timeline.recorder import Recorder
from drivers.timeline.rows import Batch, Pair, Row, Slice

_graphs: Final = count(1)


class TimedQueue:
    """A queue of a device, with time stamps around the steps of its user."""

    def __init__(self, recorder: Recorder, row: Row) -> None:
        self._slices: list[Slice] = []
        self._begun: Pair | None = None
        """Its first stamp is built, and the step behind it was refused."""
        self._recorder, self._row, self._queue = recorder, row, row.queue()
        self.can_exec, self.can_copy = self._queue.can_exec, self._queue.can_copy
        self._params = False

    def __del__(self) -> None:
        """What was built and never handed over makes room for others."""
        left = len(self._slices) + (self._begun is not None)
        if left:
            self._recorder.hand_over(left)

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
    ) -> Self:
        """A kernel, between two stamps."""
        pair = self._begin()
        self._queue.exec(program, args, grid, block)
        facts: Facts = {"grid": "x".join(map(str, grid))}
        if block is not None:
            facts["block"] = "x".join(map(str, block))
        self._end(pair, program.name, "kernel", facts, args)
        return self

    def copy(self, dst: Buffer | Param, src: Buffer | Param, nbytes: int) -> Self:
        """A copy, between two stamps."""
        pair = self._begin()
        self._queue.copy(dst, src, nbytes)
        self._end(pair, "copy", "copy", {"bytes": nbytes}, (dst, src))
        return self

    def _begin(self) -> Pair | None:
        """Build the stamp before a step."""
        pair = self._begun
        if pair is None:
            pair = self._recorder.take(self._row)
            if pair is not None:
                self._queue.timestamp(pair.begin)
        self._begun = pair
        return pair

    def _end(
        self, pair: Pair | None, name: str, category: str, facts: Facts, values: Iterable[object]
    ) -> None:
        """Build the one after it."""
        self._begun = None
        self._params = self._params or any(isinstance(value, Param) for value in values)
        if pair is not None:
            self._queue.timestamp(pair.end)
            self._slices.append(Slice(name, category, facts, pair))

    def submit(self) -> None:
        """As the device's own; a signal behind it says when all of it has ended."""
        if self._params or not self._slices:
            self._queue.submit()
            return
        slices, self._slices = self._slices, []
        with self._row.lock:
            marker, value = self._row.next_mark()
            try:
                self._queue.signal(marker, value).submit()
            except BaseException:
                self._recorder.hand_over(len(slices))  # some may run: their signals are not reused
                raise
            batch = Batch(marker, value, slices, self._recorder.over)
            self._recorder.began(self._row, batch)

    def bind(self) -> TimedGraph:
        """As the device's own."""
        graph = self._queue.bind()
        slices, self._slices, self._params = self._slices, [], False
        self._recorder.hand_over(len(slices))
        return TimedGraph(self._recorder, self._row, graph, slices)


class TimedGraph:
    """A graph whose steps write their times at each replay.

    They are read before the next replay writes them again: that waits for the one before it.
    """

    def __init__(self, recorder: Recorder, row: Row, graph: Graph, slices: list[Slice]) -> None:
        self._recorder, self._row, self._graph = recorder, row, graph
        self._slices = slices
        self._last: Batch | None = None
        number = next(_graphs)
        for one in slices:
            one.facts["graph"] = number

    def _over(self, batch: Batch) -> None:
        """The signals stay the graph's."""

    def replay(self, values: Sequence[Buffer | int] = ()) -> None:
        """As the device's own."""
        if not self._recorder.on or not self._slices:
            self._graph.replay(values)
            return
        with self._row.lock:
            if self._last is not None:
                self._recorder.wait_for(self._row, self._last)
            self._graph.replay(values)
            marker, value = self._row.next_mark()
            self._row.queue().signal(marker, value).submit()
            self._last = batch = Batch(marker, value, self._slices, self._over)
            self._recorder.began(self._row, batch)

    def close(self) -> None:
        """As the device's own."""
        self._graph.close()
