"""Two GPUs of a process: memory of one is reached by the other, at the same address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from boards.nv.hardware import NvOptions
from boards.nv.launch import KnownKernels
from boards.nv.machine import open_nv_board
from drivers.base.errors import BadArgument, Unsupported
from drivers.choice import choose
from drivers.nv.device import NvDevice
from drivers.nv.opening import open_nv
from drivers.world.foreign import ForeignWorld
from tests.boards.nv_harness import CODE, LANES, add, binary
from tests.support import check

CHIPS = ("ga102", "tu102", "gh100", "gb202")
N = 4 * LANES
GRID = (4, 1, 1)


def board_of(chip: str = "ga102", driver: int = 580) -> Any:
    board = open_nv_board(chip, gpus=2, options=NvOptions(driver=driver, vram_bytes=1 << 28))
    for gpu in board.hardware.gpus:
        gpu.executor = KnownKernels({CODE: add})
    return board


@contextmanager
def two(chip: str = "ga102", driver: int = 580) -> Iterator[tuple[NvDevice, NvDevice]]:
    """Both GPUs of a board; at the end there was no violation, and nothing is left."""
    board = board_of(chip, driver)
    world, choice = ForeignWorld(board), replace(choose({"NV": "1"}), hang_s=5.0)
    before = board.baseline()
    with open_nv(world, choice) as one, open_nv(world, replace(choice, index=1)) as other:
        yield one, other
    check(not board.hardware.violations, str(board.hardware.violations))
    check(board.baseline() == before, f"{board.baseline()}, before {before}")


def put(device: NvDevice, values: Any) -> Any:
    buffer = device.alloc(values.nbytes)
    device.copy_in(buffer, memoryview(values).cast("B"))
    return buffer


def get(device: NvDevice, buffer: Any) -> Any:
    values: Any = np.zeros(buffer.nbytes // 4, np.uint32)
    device.copy_out(memoryview(values).cast("B"), buffer)
    return values


def numbers(seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 1 << 31, N, np.uint32)


@pytest.mark.parametrize("driver", [550, 580, 610])
@pytest.mark.parametrize("chip", CHIPS)
def test_a_kernel_reads_and_writes_memory_of_the_other_gpu(chip: str, driver: int) -> None:
    a, b = numbers(1), numbers(2)
    with two(chip, driver) as (one, other):
        far, near, out = put(one, a), put(other, b), one.alloc(4 * N)
        check(far.map_to(other) == far.gpu_va == far.map_to(other), "the same address, twice")
        out.map_to(other)
        program = other.load(binary(other))
        other.compute_queue().exec(program, [out, far, near, N], GRID, (LANES, 1, 1)).submit()
        other.synchronize(5.0)
        np.testing.assert_array_equal(get(one, out), a + b)


@pytest.mark.parametrize("way", ["kernel's device", "owner"])
def test_a_copy_between_two_gpus(way: str) -> None:
    a = numbers(3)
    with two() as (one, other):
        source, target = put(one, a), other.alloc(4 * N)
        if way == "owner":
            target.map_to(one)
            copies = one.copy_queue()
        else:
            source.map_to(other)
            copies = other.copy_queue()
        copies.copy(target, source, 4 * N).submit()
        one.synchronize(5.0)
        other.synchronize(5.0)
        np.testing.assert_array_equal(get(other, target), a)


def test_a_queue_waits_for_a_signal_of_the_other_gpu() -> None:
    a, b = numbers(4), numbers(5)
    with two() as (one, other):
        shared, ready = one.alloc(4 * N), one.new_signal()
        shared.map_to(other)
        x, y, out = put(one, a), put(one, b), other.alloc(4 * N)
        copies = other.copy_queue().wait(ready, 1).copy(out, shared, 4 * N)
        copies.submit()
        queue = one.compute_queue()
        queue.exec(one.load(binary(one)), [shared, x, y, N], GRID, (LANES, 1, 1)).signal(ready, 1)
        queue.submit()
        other.synchronize(5.0)
        np.testing.assert_array_equal(get(other, out), a + b)


def test_memory_that_was_not_mapped_is_refused() -> None:
    with two() as (one, other):
        buffer = one.alloc(4 * N)
        program = other.load(binary(other))
        with pytest.raises(BadArgument, match="map_to"):
            other.launch(program, [buffer, buffer, buffer, N], 1)
        with two() as (third, _), pytest.raises(Unsupported, match="cannot be mapped"):
            buffer.map_to(third)


@pytest.mark.parametrize("first", [0, 1], ids=["the owner", "the peer"])
def test_closing_in_either_order_leaves_nothing(first: int) -> None:
    board = board_of()
    world, choice = ForeignWorld(board), choose({"NV": "1"})
    before = board.baseline()
    devices = [open_nv(world, replace(choice, index=index)) for index in (0, 1)]
    buffers = [devices[0].alloc(4 * N), devices[1].alloc(4 * N)]
    for buffer, target in zip(buffers, reversed(devices), strict=True):
        buffer.map_to(target)
    devices[first].close()
    left = devices[1 - first]
    np.testing.assert_array_equal(get(left, put(left, numbers(6))), numbers(6))
    left.close()
    check(board.baseline() == before, f"{board.baseline()}, before {before}")
    check(not board.hardware.violations, str(board.hardware.violations))


def test_memory_that_is_freed_is_unmapped_from_both() -> None:
    board = board_of()
    world, choice = ForeignWorld(board), choose({"NV": "1"})
    with open_nv(world, choice) as one, open_nv(world, replace(choice, index=1)) as other:
        before = board.baseline()
        for _ in range(3):
            buffer = one.alloc(8 << 20)
            buffer.map_to(other)
            check(board.baseline().ranges == before.ranges + 2, "one range in each space")
            buffer.free()
            one.synchronize(5.0)
            other.synchronize(5.0)
            one.trim()
            check(board.baseline() == before, f"{board.baseline()}, before {before}")


def test_gpus_that_do_not_reach_each_other_are_refused_by_name() -> None:
    board = board_of()
    world, choice = ForeignWorld(board), choose({"NV": "1"})
    devices = [open_nv(world, replace(choice, index=index)) for index in (0, 1)]
    with devices[0] as one, devices[1] as other:
        board.hardware.apart = True
        buffer = put(one, numbers(7))
        with pytest.raises(Unsupported, match="UVM_ENABLE_PEER_ACCESS"):
            buffer.map_to(other)
        np.testing.assert_array_equal(get(one, buffer), numbers(7))
        board.hardware.apart = False
        check(buffer.map_to(other) == buffer.gpu_va)
