"""R13: 32, then 17 of everything that an Adreno's device makes; all of it comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest

from drivers.base.contracts import Param
from drivers.qcom.device import QcomDevice
from drivers.world.foreign import ForeignWorld
from tests.reliability.qcom_scene import N, binary, board, nothing_left, open_on, trouble, work
from tests.support import check

COUNTS = (32, 17)
LAUNCHES, OPENS = 4200, 40
Make = Callable[[QcomDevice], AbstractContextManager[object]]


@contextmanager
def small_buffer(device: QcomDevice) -> Iterator[object]:
    buffer = device.alloc(1000)
    yield buffer
    buffer.free()


@contextmanager
def large_buffer(device: QcomDevice) -> Iterator[object]:
    buffer = device.alloc((1 << 19) + 1)
    yield buffer
    buffer.free()


@contextmanager
def program(device: QcomDevice) -> Iterator[object]:
    made = device.load(binary(device))
    yield made
    made.close()


@contextmanager
def signal(device: QcomDevice) -> Iterator[object]:
    yield device.new_signal()


@contextmanager
def graph(device: QcomDevice) -> Iterator[object]:
    made, a, b = device.load(binary(device)), device.alloc(N * 4), device.alloc(N * 4)
    recorded = device.compute_queue().exec(made, [a, a, Param(0)]).bind()
    recorded.replay([b])
    yield recorded
    recorded.close()
    made.close()
    a.free()
    b.free()


@contextmanager
def fault(device: QcomDevice) -> Iterator[object]:
    trouble(device)
    yield None


def held(one: Any, device: QcomDevice) -> tuple[int, ...]:
    """What a device and its board have, with nothing waiting to be given back."""
    device.synchronize(5.0)
    device.trim()
    device.heap.take_back()
    return (*astuple(one.baseline()), device.iface.bytes_held)


@pytest.mark.parametrize("iface", ["KGSL", "MSM"])
@pytest.mark.parametrize("make", [small_buffer, large_buffer, program, signal, graph, fault])
def test_all_of_it_comes_back(make: Make, iface: str) -> None:
    one = board(iface)
    with open_on(ForeignWorld(one), iface) as device:
        before: tuple[int, ...] = ()
        for count in (2, *COUNTS):  # the first pass fills pools that stay
            with ExitStack() as stack:
                for _ in range(count):
                    stack.enter_context(make(device))
            now = held(one, device)
            check(count != COUNTS[1] or now == before, f"{now}, not {before}")
            before = now
    nothing_left(one, make.__name__)


@pytest.mark.parametrize("iface", ["KGSL", "MSM"])
def test_thousands_of_launches_grow_nothing(iface: str) -> None:
    """More than the ring has room for: it fills up, and nothing is overwritten."""
    one = board(iface)
    with open_on(ForeignWorld(one), iface) as device:
        made, a, c = device.load(binary(device)), device.alloc(N * 4), device.alloc(N * 4)
        for buffer in (a, c):
            device.copy_in(buffer, memoryview(np.full(N, buffer is a, np.int32)))
        device.launch(made, [a, a, a], 1)
        before = held(one, device)
        for _ in range(LAUNCHES):
            device.launch(made, [a, a, c], 1)
        ring = device.compute
        check(ring.put > ring.size, "the ring was too large to fill up")
        out = np.zeros(N, np.int32)
        device.copy_out(memoryview(out), c)
        check(bool((out == 16).all()), str(out[:4]))
        check(held(one, device) == before, f"{held(one, device)}, not {before}")
    nothing_left(one, "launches")


@pytest.mark.parametrize("iface", ["KGSL", "MSM"])
def test_opens_grow_nothing(iface: str) -> None:
    one = board(iface)
    for _ in range(OPENS):
        with open_on(ForeignWorld(one), iface) as device:
            device.alloc(64)
        nothing_left(one, "an open")
    with open_on(ForeignWorld(one), iface) as device:
        work(device)
    nothing_left(one, "opens")
    check(not one.violations, str(one.violations))
