"""R13: 32, then 17 of everything that a device of an AMD GPU makes; all of it comes back."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import numpy as np
import pytest

from boards.amd.kfd.world import BoardWorld
from boards.amd.machine import open_board
from boards.machine.pci.world import PciWorld
from drivers.amd.device import AmdDevice
from drivers.amd.kfd.session import close_session
from drivers.amd.kfd.waiting import Events
from drivers.world.foreign import ForeignWorld
from tests import amd_kernels
from tests.boards.driver_harness import add, device_over_pci, get, kernel, open_on, put
from tests.reliability.amd_trouble import CHIP
from tests.support import check

N = 64
COUNTS = (32, 17)
BOTH = pytest.mark.parametrize("queue", ["PM4", "AQL"])
Make = Callable[[AmdDevice], AbstractContextManager[object]]


@contextmanager
def small_buffer(device: AmdDevice) -> Iterator[object]:
    buffer = device.alloc(1000)
    yield buffer
    buffer.free()


@contextmanager
def large_buffer(device: AmdDevice) -> Iterator[object]:
    buffer = device.alloc(3 << 20)
    yield buffer
    buffer.free()


@contextmanager
def dropped_buffer(device: AmdDevice) -> Iterator[object]:
    """Freed by its finaliser."""
    yield device.alloc(1 << 20)


@contextmanager
def wrapped_memory(device: AmdDevice) -> Iterator[object]:
    with mmap.mmap(-1, 8192) as memory:
        view = memoryview(memory)
        buffer = device.wrap(view)
        yield buffer
        buffer.free()
        device.trim()
        view.release()


@contextmanager
def program(device: AmdDevice) -> Iterator[object]:
    loaded = device.load(add(CHIP))
    yield loaded
    loaded.close()


@contextmanager
def private_program(device: AmdDevice) -> Iterator[object]:
    loaded = device.load(kernel(amd_kernels.scratch(), CHIP, 64))
    out = device.alloc(4 * N)
    device.launch(loaded, [out, 5], 1)
    np.testing.assert_array_equal(get(device, out, "int32"), 25 + np.arange(N))
    yield loaded
    loaded.close()


@contextmanager
def signal(device: AmdDevice) -> Iterator[object]:
    made = device.new_signal()
    device.compute_queue().signal(made, 1).submit()
    made.wait(1)
    yield made
    made.close()


@contextmanager
def command_queues(device: AmdDevice) -> Iterator[object]:
    x = put(device, np.ones(N, np.float32))
    done = device.new_signal()
    yield device.compute_queue().signal(done, 1), device.copy_queue().copy(x, x, 0)
    device.compute_queue().signal(done, 1).submit()
    done.wait(1)


@contextmanager
def graph(device: AmdDevice) -> Iterator[object]:
    x = put(device, np.ones(N, np.float32))
    loaded = device.load(add(CHIP))
    steps = device.compute_queue()
    for _ in range(3):
        steps.exec(loaded, [x, x, x, N])
    bound = steps.bind()
    bound.replay()
    check(get(device, x)[0] == 8)
    yield bound
    bound.close()


@contextmanager
def copy_graph(device: AmdDevice) -> Iterator[object]:
    x, y = put(device, np.ones(N, np.float32)), device.alloc(4 * N)
    bound = device.copy_queue().copy(y, x, 4 * N).bind()
    bound.replay()
    yield bound
    bound.close()


@contextmanager
def events(device: AmdDevice) -> Iterator[object]:
    made = Events.open(device.iface)
    yield made
    made.close()


MAKERS: tuple[Make, ...] = (
    small_buffer, large_buffer, dropped_buffer, wrapped_memory, program, private_program, signal,
    command_queues, graph, copy_graph, events,
)  # fmt: skip


def held(board: BoardWorld, device: AmdDevice) -> tuple[object, ...]:
    """Everything that can leak, with nothing cached."""
    device.trim()
    maps = len(board._maps)
    return board.baseline(), maps, device.iface.handles, device.iface.bytes_held


@BOTH
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_objects_come_back(make: Make, queue: str) -> None:
    board = open_board(CHIP, vram_bytes=1 << 30)
    world = ForeignWorld(board)
    with open_on(world, queue) as device:
        with make(device):  # the first one brings caches, pools and scratch memory
            pass
        before, fds = held(board, device), len(os.listdir("/proc/self/fd"))
        for count in COUNTS:
            with ExitStack() as alive:
                for _ in range(count):
                    alive.enter_context(make(device))
            now = held(board, device)
            check(now == before, f"{count}: {before} became {now}")
        check(len(os.listdir("/proc/self/fd")) <= fds)  # less: boards of other tests are gone
    close_session(world)
    check(not board.violations, f"{board.violations}")
    check(not any((board.baseline().fds, board.baseline().mappings, board.baseline().gtt_bytes)))


def held_over_pci(board: PciWorld, device: AmdDevice) -> tuple[object, ...]:
    """The same of a bare GPU: pages, page tables, host memory that it reaches."""
    device.trim()
    iface = device.iface
    pages, dma = iface._gpu.pages.used_bytes, iface._gpu.session.dma.live
    return board.baseline(), iface.handles, iface.bytes_held, pages, iface._table.tables, dma


BARE = [
    (make, iommu) for make in MAKERS for iommu in (True, False)
    if make is not events and (iommu or make is not wrapped_memory)
]  # fmt: skip
"""A bare GPU has no events, and without an IOMMU it reaches no memory of the host."""


@pytest.mark.parametrize(("make", "iommu"), BARE, ids=lambda v: getattr(v, "__name__", f"{v}"))
def test_objects_come_back_over_pci(make: Make, iommu: bool) -> None:
    with device_over_pci(CHIP, "PM4", iommu=iommu) as (board, device):
        with make(device):
            pass
        before = held_over_pci(board, device)
        for count in COUNTS:
            with ExitStack() as alive:
                for _ in range(count):
                    alive.enter_context(make(device))
            now = held_over_pci(board, device)
            check(now == before, f"{count}: {before} became {now}")


@BOTH
def test_devices_come_back(queue: str) -> None:
    """One after the other, and at the same time as far as the GPU has copy queues for them."""
    board = open_board(CHIP, vram_bytes=2 << 30)
    world = ForeignWorld(board)
    open_on(world, queue).close()
    before, fds = board.baseline(), len(os.listdir("/proc/self/fd"))
    for count in COUNTS:
        for _ in range(count):
            with open_on(world, queue) as device:
                check(len(get(device, put(device, np.ones(N, np.float32)))) == N)
        check(board.baseline() == before, f"{before} became {board.baseline()}")
    with ExitStack() as alive:
        for _ in range(8):
            alive.enter_context(open_on(world, queue))
    check(board.baseline() == before, f"{before} became {board.baseline()}")
    check(len(os.listdir("/proc/self/fd")) <= fds)
    close_session(world)
    check(not board.baseline().mappings and not board.baseline().gtt_bytes)


@BOTH
def test_sessions_come_back(queue: str) -> None:
    """Leaving /dev/kfd and entering it again, where the kernel lets a process do so."""
    board = open_board(CHIP, vram_bytes=256 << 20)
    world = ForeignWorld(board)
    before = board.baseline()
    for _ in range(sum(COUNTS)):
        with open_on(world, queue):
            pass
        close_session(world)
        check(board.baseline() == before, f"{before} became {board.baseline()}")
