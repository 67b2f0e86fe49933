"""A stand-in for signals: a handler that runs at a chosen place of the driver.

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

from drivers.base.contracts import Param
from drivers.base.errors import Busy
from tests.boards.driver_harness import add, get, put
from tests.share import part
from tests.support import check

N = 64
CALLS = ("CALL", "CALL_FUNCTION_EX", "CALL_KW")
INSIDE = ("/drivers/", "/queues/")
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

    def __init__(self, device: Any) -> None:
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

    def values(self, number: int) -> set[float]:
        return set(get(self.device, self.sums[number]).tolist())

    def check(self, where: str) -> None:
        for number, wanted in enumerate(self.wanted):
            found = self.values(number)
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


class Scene:
    """What is interrupted, and what interrupts it: launches, lists, replays and waits."""

    def __init__(self, sums: Sums) -> None:
        self.sums, self.device = sums, sums.device
        self.refused = self.tried = 0
        graph = sums.graph(2)
        self.works: dict[str, Work] = {
            "launch": lambda: sums.launch(0),
            "submit": lambda: sums.submit(0),
            "replay": lambda: (sums.replay(graph, 0, 2), sums.replay(graph, 1, 2)),
            "synchronize": lambda: (sums.launch(0), self.device.synchronize()),
        }
        self.handlers: dict[str, Work] = {
            "launches": lambda: sums.launch(2),
            "waits": lambda: (sums.launch(2), self._wait()),
            "replays": lambda: sums.replay(graph, 3, 2),
        }

    def _wait(self) -> None:
        try:
            self.device.synchronize()
        except Busy as error:
            check("signal handler" in str(error), str(error))
            self.refused += 1

    def everywhere(self, least: int) -> None:
        """Each handler in each work, at all places or some; there are at least so many."""
        for what, work in self.works.items():
            for how, handler in self.handlers.items():
                most = part(33, 6) if (what, how) == ("launch", "launches") else part(12, 3)
                seen = everywhere(self.sums, work, handler, f"{what} and {how}", most)
                check(seen > least, f"{what} and {how}: {seen} places")
                self.tried += min(seen, most)


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
