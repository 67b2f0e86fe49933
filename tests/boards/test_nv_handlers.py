"""A signal handler that computes, anywhere inside NVIDIA's driver: nobody's work is lost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from drivers.base.errors import Unsupported
from drivers.nv import push_ring
from drivers.nv.device import NvDevice
from tests.boards.driver_harness import get, put
from tests.boards.handler_places import (
    FEWER_TRACED,
    LEAST_PLACES,
    N,
    Scene,
    Signal,
    Sums,
    Work,
    patched_under_way,
    places,
)
from tests.boards.nv_harness import arguments, binary, device_on
from tests.share import part
from tests.support import check


def add(launch: Any) -> None:
    """c[i] = a[i] + b[i] of float32, for i < n."""
    a, b, c, n = arguments(launch)
    one, two = (np.frombuffer(launch.space.read(va, 4 * n), np.float32) for va in (a, b))
    launch.space.write(c, (one + two).tobytes())


class NvSums(Sums):
    """The same sums, by a kernel that Python stands for."""

    def __init__(self, device: Any) -> None:
        self.device, self.program = device, device.load(binary(device))
        self.one = put(device, np.ones(N, np.float32))
        self.sums = [put(device, np.zeros(N, np.float32)) for _ in range(4)]
        self.wanted = [0] * len(self.sums)


@contextmanager
def sums_on(chip: str) -> Iterator[tuple[NvDevice, NvSums]]:
    with device_on(chip, kernel=add) as (device, _):
        yield device, NvSums(device)


@pytest.mark.parametrize("chip", ["ga102", "tu102"])
def test_a_handler_that_computes(chip: str) -> None:
    """Inside launches, lists, replays and waits: launches, replays the same graph, and waits."""
    with sums_on(chip) as (_, sums):
        scene = Scene(sums)
        scene.everywhere(10)
        check(not scene.refused, f"{scene.refused} waits were refused")


def test_a_handler_that_copies() -> None:
    """Inside copies and lists of them: both."""
    with device_on() as (device, _):
        amd_typed: Any = device
        source = np.arange(N, dtype=np.float32)
        kept = put(amd_typed, source)
        targets = [put(amd_typed, np.zeros(N, np.float32)) for _ in range(4)]
        back = np.zeros(N, np.float32)

        def queued(first: int) -> None:
            queue = device.copy_queue()
            for target in targets[first : first + 2]:
                queue.copy(target, kept, 4 * N)
            queue.submit()

        works: list[Work] = [lambda: device.copy_out(memoryview(back), kept), lambda: queued(0)]
        handlers: list[Work] = [lambda: get(amd_typed, kept), lambda: queued(2)]
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
            np.testing.assert_array_equal(get(amd_typed, target), source)


def test_a_handler_where_the_ring_wraps() -> None:
    """A lap of the ring ends and begins inside."""
    with sums_on("ga102") as (device, sums):
        graph = sums.graph(3)

        def some() -> None:
            sums.launch(0)
            sums.replay(graph, 1, 3)
            sums.launch(0)

        def near_the_end() -> None:
            device.synchronize()
            ring = device.compute
            with ring.lock:
                ahead = -ring.put % push_ring.LINES - 4
                for _ in range(max(0, ahead)):
                    ring.emit([])
            device.synchronize()

        some()
        near_the_end()
        seen = places(some)
        for at in range(1, seen, max(1, seen // part(12, 4))):
            near_the_end()
            Signal(lambda: [sums.launch(2) for _ in range(3)], at).run(some)
        sums.check("at the end")


def test_no_copy_is_patched_that_a_handler_has_just_replayed() -> None:
    """The GPU seems to stop behind the first replay: what a handler replays stays under way."""
    with sums_on("ga102") as (_, sums):
        seen = patched_under_way(sums, -1)
        if seen < LEAST_PLACES and sys.version_info >= FEWER_TRACED:
            pytest.skip("this Python traces no instruction of a function's first call")
        check(seen >= LEAST_PLACES, f"{seen} places")
        for at in range(1, seen + 1):
            patched_under_way(sums, at)
        sums.check("at the end")


def test_a_handler_that_closes_the_ring() -> None:
    """What it interrupted is refused, and the device goes on with the new ring.

    Work that was given already and is not done is lost with the ring, as after a fault.
    """
    with sums_on("ga102") as (device, sums):
        graph, error = sums.graph(2), Unsupported("replaced by the test")
        works: list[tuple[Work, int]] = [
            (lambda: sums.launch(0), 1), (lambda: sums.replay(graph, 0, 2), 2),
        ]  # fmt: skip
        for work, kernels in works:
            work()
            for at in range(1, places(work) + 1, part(1, 3)):
                before, under_way = device.compute, list[bool]()

                def replaced(under_way: list[bool] = under_way) -> None:
                    under_way.append(device.compute.put != device.compute.done)
                    device.recovery.replace(device.compute, error)

                try:
                    Signal(replaced, at).run(work)
                except Unsupported:
                    under_way.append(True)
                if any(under_way):
                    sums.wanted[0] -= kernels
                check(device.compute is not before)
        sums.check("rings replaced")
