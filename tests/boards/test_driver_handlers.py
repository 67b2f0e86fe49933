"""A signal handler that computes, anywhere inside the driver: nobody's work is lost or changed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from drivers.amd import aql_ring, queue_maker
from drivers.base.errors import Unsupported
from queues.amd.aql_launch import PACKET_BYTES
from tests.boards.driver_harness import device_on, get, put
from tests.boards.handler_places import (
    FEWER_TRACED,
    LEAST_PLACES,
    N,
    Scene,
    Signal,
    Sums,
    Work,
    everywhere,
    patched_under_way,
    places,
)
from tests.share import part
from tests.support import check

KINDS = pytest.mark.parametrize(
    ("chip", "queue"),
    [("gfx1100", "PM4"), ("gfx1100", "AQL"), ("gfx942", "PM4"), ("gfx942", "AQL"),
     ("gfx1100", "PCI PM4"), ("gfx1100", "PCI AQL"),
     ("gfx1201", "VRAM PM4"), ("gfx1100", "USB PM4"), ("gfx1100", "USB AQL")]
)  # fmt: skip


@KINDS
def test_a_handler_that_computes(chip: str, queue: str) -> None:
    """Inside launches, lists, replays and waits: launches, replays the same graph, and waits."""
    with device_on(chip, queue) as (_, device):
        scene = Scene(Sums(device))
        scene.everywhere(20)
        # Registers of the VRAM's board are no memory either: its flushes and doorbells are calls.
        called = queue.startswith(("USB", "VRAM"))
        check(not scene.refused or called, f"{scene.refused} waits were refused")


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
