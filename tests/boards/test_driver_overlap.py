"""Replays with other arguments overlap: the host patches one while the GPU is at those before."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Thread
from typing import Any

import numpy as np
import pytest

from drivers.amd.device import AmdDevice
from drivers.amd.memory import AmdBuffer
from drivers.base.contracts import Param
from drivers.base.errors import BadArgument, OutOfMemory, UseAfterFree
from drivers.gpu import graph_memory
from tests.boards.driver_harness import add, device_on, get, put
from tests.boards.slow_engines import Pace, slow_device
from tests.support import check

N = 64
REPLAYS = 9
KINDS = pytest.mark.parametrize(
    ("chip", "queue"),
    [("gfx1100", "PM4"), ("gfx1100", "AQL"), ("gfx942", "PM4"), ("gfx942", "AQL")],
)


def ones(device: AmdDevice, value: float = 1) -> AmdBuffer:
    return put(device, np.full(N, value, np.float32))


def holds(device: AmdDevice, buffer: AmdBuffer, value: float) -> None:
    np.testing.assert_array_equal(get(device, buffer), np.full(N, value, np.float32))


def chain(device: AmdDevice, steps: int) -> Any:
    """Param 1 = Param 0 + `steps` ones, through memory of the graph's own."""
    program, one, between = device.load(add(device.arch)), ones(device), device.alloc(4 * N)
    queue = device.compute_queue()
    for number in range(steps):
        source = between if number else Param(0)
        queue.exec(program, [source, one, Param(1) if number == steps - 1 else between, N])
    return queue.bind()


def copies(graph: Any) -> Sequence[graph_memory.Copy]:
    made: Sequence[graph_memory.Copy] = graph._bound.copies
    return made


@KINDS
def test_the_queue_is_never_empty_between_replays(chip: str, queue: str) -> None:
    """Fresh results each time, as a jitted function has them; nobody waits for one meanwhile."""
    pace = Pace(kernel_s=2.0)
    with slow_device(chip, queue, pace) as (_, device):
        graph, inputs = chain(device, 2), [ones(device, value) for value in range(REPLAYS)]
        results = [device.alloc(4 * N) for _ in inputs]
        device.synchronize()
        before = pace.kernels
        pace.emptied.clear()
        for pair in zip(inputs, results, strict=True):
            graph.replay(pair)
        done = pace.kernels - before
        check(0 < done < 2 * REPLAYS, f"{done} kernels had run when the last replay was given")
        device.synchronize()
        early = {kernels - before for kernels in pace.emptied} - {0, 2 * REPLAYS}
        check(not early, f"the queue had nothing to do after {early} of {2 * REPLAYS} kernels")
        pace.clock = None
        for value, result in enumerate(results):
            holds(device, result, value + 2)
        check(len(copies(graph)) == graph_memory.MOST_COPIES, f"{len(copies(graph))} copies")


@KINDS
def test_one_copy_is_enough_for_whoever_waits(chip: str, queue: str) -> None:
    with device_on(chip, queue) as (_, device):
        graph, result = chain(device, 3), device.alloc(4 * N)
        for value in range(5):
            graph.replay([ones(device, value), result])
            holds(device, result, value + 3)
        check(len(copies(graph)) == 1)


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_the_same_arguments_wait_for_nothing(queue: str) -> None:
    pace = Pace(kernel_s=2.0)
    with slow_device("gfx1100", queue, pace) as (board, device):
        x = ones(device)
        program = device.load(add("gfx1100"))
        graph = device.compute_queue().exec(program, [x, Param(0), Param(0), N]).bind()
        y = ones(device, 0)
        device.synchronize()
        process = board.process
        slept = process.events.slept if process is not None else -1
        for _ in range(20):
            graph.replay([y])
        check(process is not None and process.events.slept == slept, "a replay slept")
        check(len(copies(graph)) == 1)
        pace.clock = None
        holds(device, y, 20)


@KINDS
def test_an_argument_of_many_steps_is_patched_in_all(chip: str, queue: str) -> None:
    """Steps of one kernel, and another one between them; every replay has its own sum and ones."""
    with device_on(chip, queue) as (_, device):
        program, recorded, count = device.load(add(device.arch)), device.compute_queue(), 40
        for number in range(count):
            recorded.exec(program, [Param(1), Param(0), Param(0), N])
            if number == count // 3:
                recorded.exec(program, [Param(0), Param(1), Param(0), N]).barrier()
        graph, sums = recorded.bind(), [ones(device, 0), ones(device, 0)]
        added = [ones(device, value) for value in (1, 10)]
        for number, one in ((0, 0), (1, 0), (0, 1), (0, 0), (1, 1)):
            graph.replay([sums[number], added[one]])
        for buffer, times in zip(sums, (1 + 10 + 1, 1 + 10), strict=True):
            holds(device, buffer, times * (count + 1))


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_memory_of_copies_is_bounded(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of a large graph, one where there is no memory for more; the results are right."""
    for bound, most, refuse in ((0, 2, False), (1 << 20, 1, True)):
        monkeypatch.setattr(graph_memory, "COPIES_BYTES", bound)
        pace = Pace(kernel_s=2.0)
        with slow_device("gfx1100", queue, pace) as (_, device):
            graph, results = chain(device, 2), [device.alloc(4 * N) for _ in range(5)]
            inputs, allocate = [ones(device, value) for value in range(5)], device.iface.allocate

            def none_left(
                *args: Any, refuse: bool = refuse, real: Any = allocate, **kw: Any
            ) -> Any:
                if refuse and args[2] == "graph":
                    raise OutOfMemory("none", requested=1, used=1, cached=0, limit=1)
                return real(*args, **kw)

            monkeypatch.setattr(device.iface, "allocate", none_left)
            for pair in zip(inputs, results, strict=True):
                graph.replay(pair)
            pace.clock = None
            for value, result in enumerate(results):
                holds(device, result, value + 2)
            check(len(copies(graph)) == most, f"{len(copies(graph))} copies")


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_what_was_freed_is_refused_in_every_copy(queue: str) -> None:
    """Also an argument that a copy still has from a replay long ago; and nothing is kept alive."""
    pace = Pace(kernel_s=2.0)
    with slow_device("gfx1100", queue, pace) as (_, device):
        graph, results = chain(device, 2), [device.alloc(4 * N) for _ in range(4)]
        inputs = [ones(device, value) for value in range(4)]
        for pair in zip(inputs, results, strict=True):
            graph.replay(pair)
        check(len(copies(graph)) > 1)
        results[0].free()
        with pytest.raises(UseAfterFree):
            graph.replay([inputs[0], results[0]])
        with pytest.raises(BadArgument):
            graph.replay([inputs[0]])
        graph.replay([inputs[1], results[1]])
        pace.clock = None
        device.synchronize()
        live = device.memory_stats().used_bytes
        del results[1], results[1], pair
        check(device.memory_stats().used_bytes < live, "a copy keeps results of an old replay")
        graph.close()
        with pytest.raises(UseAfterFree):
            graph.replay([inputs[1], inputs[2]])


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_a_graph_is_closed_after_a_replay_of_another_thread(queue: str) -> None:
    with device_on("gfx1100", queue) as (_, device):
        graph, result = chain(device, 2), device.alloc(4 * N)
        graph.replay([ones(device, 3), result])
        bound, closing = graph._bound, Thread(target=graph.close)
        with bound.lock:  # as a replay has it
            closing.start()
            closing.join(0.05)
            check(closing.is_alive() and len(bound.copies) == 1, "closed under a replay")
        closing.join(10)
        check(not closing.is_alive() and not bound.copies, "never closed")
        holds(device, result, 5)
        with pytest.raises(UseAfterFree):
            graph.replay([ones(device), result])
