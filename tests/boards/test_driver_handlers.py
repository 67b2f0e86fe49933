"""A signal handler that computes, anywhere inside the driver: nobody's work is lost or changed.

CPython runs handlers at the start of functions, behind calls and where loops go back
(# src: Python/ceval.c, CHECK_EVAL_BREAKER). A trace function stands for the signal: it calls the
handler at one of these places, at the next one in the next run, and so on.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

from drivers.amd import aql_ring, queue_maker
from drivers.amd.device import AmdDevice
from drivers.base.contracts import Param
from drivers.base.errors import Unsupported
from queues.amd.aql_launch import PACKET_BYTES
from tests.boards.driver_harness import add, device_on, get, put
from tests.share import part
from tests.support import check

N = 64
KINDS = pytest.mark.parametrize(
    ("chip", "queue"),
    [("gfx1100", "PM4"), ("gfx1100", "AQL"), ("gfx942", "PM4"), ("gfx942", "AQL")],
)
CALLS = ("CALL", "CALL_FUNCTION_EX", "CALL_KW")
INSIDE = ("/drivers/amd/", "/drivers/nv/", "/drivers/gpu/", "/queues/")
Work = Callable[[], object]

LEAST_PLACES = 2
FEWER_TRACED = (3, 12)
"""From this Python on, sys.settrace reports instructions by way of sys.monitoring."""


def _begins(name: str) -> bool:
    return name == "RESUME" or ("JUMP_BACKWARD" in name and "NO_INTERRUPT" not in name)


class Signal:
    """Calls `handler` at place number `at` of what runs inside; `seen` counts the places."""

    def __init__(self, handler: Work, at: int) -> None:
        self.handler, self.at, self.seen = handler, at, 0
        self._last: dict[int, str] = {}

    def run(self, work: Work) -> None:
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            work()
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        if not any(part in frame.f_code.co_filename for part in INSIDE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self._last.pop(id(frame), None)
        return self._step

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "opcode":
            name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            last, self._last[id(frame)] = self._last.get(id(frame), ""), name
            if _begins(name) or last in CALLS:
                self.seen += 1
                if self.seen == self.at:
                    self.handler()
        return self._step


class Sums:
    """Buffers that kernels add ones to, and how often they should have done so."""

    def __init__(self, device: AmdDevice) -> None:
        self.device, self.program = device, device.load(add(device.arch))
        self.one = put(device, np.ones(N, np.float32))
        self.sums = [put(device, np.zeros(N, np.float32)) for _ in range(4)]
        self.wanted = [0] * len(self.sums)

    def launch(self, number: int) -> None:
        self.wanted[number] += 1
        self.device.launch(self.program, [self.one, self.sums[number], self.sums[number], N], 1)

    def submit(self, number: int) -> None:
        self.wanted[number] += 2
        queue, sums = self.device.compute_queue(), self.sums[number]
        for _ in range(2):
            queue.exec(self.program, [self.one, sums, sums, N]).barrier()
        queue.submit()

    def replay(self, graph: Any, number: int, steps: int) -> None:
        self.wanted[number] += steps
        graph.replay([self.sums[number]])

    def graph(self, steps: int) -> Any:
        queue = self.device.compute_queue()
        for _ in range(steps):
            queue.exec(self.program, [self.one, Param(0), Param(0), N])
        return queue.bind()

    def check(self, where: str) -> None:
        for number, (buffer, wanted) in enumerate(zip(self.sums, self.wanted, strict=True)):
            found = set(get(self.device, buffer).tolist())
            check(found == {wanted}, f"{where}: sum {number} is {found}, not {wanted}")


def places(work: Work) -> int:
    """How many places of the driver a handler can be called at while this runs."""
    for _ in range(2):  # Python 3.13 traces instructions from a function's second call on
        counter = Signal(lambda: None, -1)
        counter.run(work)
    return counter.seen


def everywhere(sums: Sums, work: Work, handler: Work, name: str, most: int) -> int:
    """Work with the handler at one place after the other, at most so many; how many there are."""
    work()  # what is made once is there from now on
    seen = places(work)
    step = max(1, seen // most)
    for at in range(1 + len(name) % step, seen + 1, step):
        Signal(handler, at).run(work)
    sums.check(name)
    return seen


@KINDS
def test_a_handler_that_computes(chip: str, queue: str) -> None:
    """Inside launches, lists, replays and waits: launches, replays the same graph, and waits."""
    with device_on(chip, queue) as (_, device):
        sums = Sums(device)
        graph = sums.graph(2)
        works: dict[str, Work] = {
            "launch": lambda: sums.launch(0),
            "submit": lambda: sums.submit(0),
            "replay": lambda: (sums.replay(graph, 0, 2), sums.replay(graph, 1, 2)),
            "synchronize": lambda: (sums.launch(0), device.synchronize()),
        }
        handlers: dict[str, Work] = {
            "launches": lambda: sums.launch(2),
            "waits": lambda: (sums.launch(2), device.synchronize()),
            "replays": lambda: sums.replay(graph, 3, 2),
        }
        for what, work in works.items():
            for how, handler in handlers.items():
                most = part(33, 6) if (what, how) == ("launch", "launches") else part(12, 3)
                check(everywhere(sums, work, handler, f"{what} and {how}", most) > 20)


def test_a_handler_that_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside copies and lists of them, in a ring that wraps: both."""
    monkeypatch.setattr(queue_maker, "COPY_RING_BYTES", 4 << 10)
    with device_on("gfx1100") as (_, device):
        source = np.arange(N, dtype=np.float32)
        kept = put(device, source)
        targets = [put(device, np.zeros(N, np.float32)) for _ in range(4)]
        back = np.zeros(N, np.float32)

        def queued(first: int) -> None:
            queue = device.copy_queue()
            for target in targets[first : first + 2]:
                queue.copy(target, kept, 4 * N)
            queue.submit()

        works: list[Work] = [lambda: device.copy_out(memoryview(back), kept), lambda: queued(0)]
        handlers: list[Work] = [lambda: get(device, kept), lambda: queued(2)]
        for work in works:
            for handler in handlers:
                seen = places(work)
                check(seen > 20, f"{seen} places")
                for at in range(1, seen + 1, max(1, seen // part(40, 8))):
                    back[:] = 0
                    Signal(handler, at).run(work)
                    device.synchronize()
                    if work is works[0]:
                        np.testing.assert_array_equal(back, source)
        for target in targets:
            np.testing.assert_array_equal(get(device, target), source)


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_a_handler_where_the_ring_wraps(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings that hold some thirty launches: flushes, the tail and the front are met again."""
    monkeypatch.setattr(queue_maker, "RING_BYTES", 16 << 10)
    monkeypatch.setattr(queue_maker, "AQL_RING_BYTES", 64 * PACKET_BYTES)
    monkeypatch.setattr(aql_ring, "SLOTS", 64)
    with device_on("gfx1100", queue) as (_, device):
        sums = Sums(device)

        def some() -> None:
            for _ in range(7):
                sums.launch(0)

        some()
        seen = places(some)
        for at in range(1, seen, max(1, seen // part(40, 8))):
            Signal(lambda: [sums.launch(2) for _ in range(3)], at).run(some)
        sums.check("at the end")


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_no_copy_is_patched_that_a_handler_has_just_replayed(queue: str) -> None:
    """The GPU seems to stop behind the first replay: what a handler replays stays under way."""
    with device_on("gfx1100", queue) as (_, device):
        sums = Sums(device)
        seen = patched_under_way(sums, -1)
        if seen < LEAST_PLACES and sys.version_info >= FEWER_TRACED:
            pytest.skip("this Python traces no instruction of a function's first call")
        check(seen >= LEAST_PLACES, f"{seen} places")
        for at in range(1, seen + 1):
            patched_under_way(sums, at)
        sums.check("at the end")


def patched_under_way(sums: Sums, at: int) -> int:
    """Prepare a copy with a handler at place `at`, which replays; how many places there are."""
    graph, ring, under_way = sums.graph(1), sums.device.compute, list[bool]()
    sums.replay(graph, 0, 1)
    sums.device.synchronize()
    frozen = memoryview(bytearray(16)).cast("Q")
    frozen[0] = ring.put

    def handler() -> None:
        sums.replay(graph, 3, 1)

    def patch(copy: Any, given: list[int]) -> None:
        under_way.append(not copy.done)

    real, ring._cell = ring._cell, frozen
    signal = Signal(handler, at)
    with graph._bound.lock:
        signal.run(lambda: graph._bound.prepare([1], patch))
    ring._cell = real
    check(not any(under_way), f"place {at}: a copy was patched under way")
    return signal.seen


def test_a_long_graph_inside_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """AQL: parts of a recording that the ring takes one by one are not mixed with it again."""
    monkeypatch.setattr(aql_ring, "PART", 4)
    monkeypatch.setattr("drivers.amd.graphs.PART", 4)
    with device_on("gfx1100", "AQL") as (_, device):
        sums = Sums(device)
        graph, refused = sums.graph(10), 0

        def handler() -> None:
            nonlocal refused
            try:
                sums.replay(graph, 3, 10)
            except Unsupported as error:
                check("when the handler has returned" in str(error), str(error))
                sums.wanted[3] -= 10
                refused += 1

        seen = everywhere(sums, lambda: sums.replay(graph, 0, 10), handler, "a long graph", 99)
        check(0 < refused < seen, f"{refused} of {seen}")


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_a_handler_that_closes_the_ring(queue: str) -> None:
    """What it interrupted is refused, and the device goes on with the new ring."""
    with device_on("gfx1100", queue) as (_, device):
        sums, error = Sums(device), Unsupported("replaced by the test")
        sums.launch(0)
        for at in range(1, places(lambda: sums.launch(0)) + 1, part(1, 3)):
            device.synchronize()  # a ring that is replaced loses what has not run
            before = device.compute
            try:
                Signal(lambda: device.recovery.replace(device.compute, error), at).run(
                    lambda: sums.launch(0)
                )
            except Unsupported:
                sums.wanted[0] -= 1
            check(device.compute is not before)
        sums.check("rings replaced")
