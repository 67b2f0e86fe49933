"""R13: 32, then 17 of everything that a device of an NVIDIA GPU makes; all of it comes back."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest

from drivers.base.contracts import Param
from drivers.nv.device import NvDevice
from drivers.world.foreign import ForeignWorld
from tests.boards.nv_harness import binary
from tests.reliability.nv_scene import board, nothing_left, open_on, trouble, work
from tests.share import part
from tests.support import check

COUNTS = (32, 17)
LAUNCHES, OPENS = part(10_000, 2_000), part(200, 40)
Make = Callable[[NvDevice], AbstractContextManager[object]]


@contextmanager
def small_buffer(device: NvDevice) -> Iterator[object]:
    buffer = device.alloc(1000)
    yield buffer
    buffer.free()


@contextmanager
def large_buffer(device: NvDevice) -> Iterator[object]:
    buffer = device.alloc((1 << 20) + 1)
    yield buffer
    buffer.free()


@contextmanager
def wrapped_memory(device: NvDevice) -> Iterator[object]:
    with mmap.mmap(-1, 8192) as memory:
        view = memoryview(memory)
        buffer = device.wrap(view)
        yield buffer
        buffer.free()
        device.synchronize(5.0)
        device.trim()
        view.release()


@contextmanager
def program(device: NvDevice) -> Iterator[object]:
    made = device.load(binary(device))
    yield made
    made.close()


@contextmanager
def signal(device: NvDevice) -> Iterator[object]:
    yield device.new_signal()


@contextmanager
def graph(device: NvDevice) -> Iterator[object]:
    made, a = device.load(binary(device)), device.alloc(256)
    recorded = device.compute_queue().exec(made, [a, a, a, Param(0)]).bind()
    recorded.replay([4])
    yield recorded
    recorded.close()
    made.close()
    a.free()


@contextmanager
def fault(device: NvDevice) -> Iterator[object]:
    trouble(device)
    yield None


def held(one: Any, device: NvDevice) -> tuple[int, ...]:
    """What a device and its board have, with nothing waiting to be given back."""
    device.synchronize(5.0)
    device.trim()
    device.heap.take_back()
    now = one.baseline()
    iface = device.iface
    return (now.fds, now.mappings, now.objects, now.channels, now.ranges, now.video_bytes,
            now.system_bytes, iface.handles, iface.bytes_held)  # fmt: skip


@pytest.mark.parametrize(
    "make", [small_buffer, large_buffer, wrapped_memory, program, signal, graph, fault]
)
def test_all_of_it_comes_back(make: Make) -> None:
    one = board()
    with open_on(ForeignWorld(one)) as device:
        for count in (2, *COUNTS):  # the first pass fills pools that stay
            with ExitStack() as stack:
                for _ in range(count):
                    stack.enter_context(make(device))
            if count == COUNTS[0]:
                before = held(one, device)
            elif count == COUNTS[1]:
                check(held(one, device) == before, f"{held(one, device)}, not {before}")
    nothing_left(one, make.__name__)


def test_ten_thousand_launches_grow_nothing() -> None:
    one = board()
    with open_on(ForeignWorld(one)) as device:
        made = device.load(binary(device))
        a, ones = device.alloc(256), device.alloc(256)
        for buffer, value in ((a, 0), (ones, 1)):
            device.copy_in(buffer, memoryview(np.full(64, value, np.uint32)))
        before = held(one, device)
        for _ in range(LAUNCHES):
            device.launch(made, [a, a, ones, 64], 1)
        out = np.zeros(64, np.uint32)
        device.copy_out(memoryview(out), a)
        check(bool((out == LAUNCHES).all()), str(out[:4]))
        check(held(one, device) == before, f"{held(one, device)}, not {before}")
    nothing_left(one, "launches")


def test_two_hundred_opens_grow_nothing() -> None:
    one = board()
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(OPENS):
        with open_on(ForeignWorld(one)) as device:
            device.alloc(64)
        nothing_left(one, "an open")
    with open_on(ForeignWorld(one)) as device:
        work(device)
    nothing_left(one, "opens")
    check(len(os.listdir("/proc/self/fd")) <= descriptors, "descriptors of this process")
    check(not one.violations, str(one.violations))
