"""Kernels on every device: launch and exec say the same about grid, block and arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from drivers.base.contracts import Buffer, Device, Program, Resources
from drivers.base.errors import BadArgument, DeviceError, Unsupported, UseAfterFree
from tests.contract.arrays import get, put, ramp, refused
from tests.contract.conftest import COUNT
from tests.contract.devices import LANES, Entry
from tests.contract.kernels import BLOCK, combine, mirror
from tests.support import check

UNTOUCHED = -1


def whole(device: Device) -> int:
    """Workgroups that cover COUNT items."""
    return -(-COUNT // min(BLOCK, device.limits.max_block))


def operands(device: Device) -> tuple[Buffer, Buffer, Buffer]:
    """a, b and a result of sentinels."""
    sentinels = np.full(COUNT, UNTOUCHED, np.int32)
    return put(device, ramp(COUNT)), put(device, ramp(COUNT, 1000)), put(device, sentinels)


WANTED = 3 * ramp(COUNT) + ramp(COUNT, 1000)


def test_a_launch(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    device.launch(program, [a, b, c], whole(device))
    np.testing.assert_array_equal(get(device, c), WANTED)


def test_a_launch_of_fewer_workgroups_touches_no_more(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    device.launch(program, [a, b, c], 2)
    done = 2 * min(BLOCK, device.limits.max_block)
    got = get(device, c)
    np.testing.assert_array_equal(got[:done], WANTED[:done])
    check((got[done:] == UNTOUCHED).all(), "behind the last workgroup")


@pytest.mark.parametrize("own_block", [True, False])
def test_exec_is_the_same_launch(device: Device, program: Program, own_block: bool) -> None:
    a, b, c = operands(device)
    block = None if own_block else (min(BLOCK, device.limits.max_block), 1, 1)
    device.compute_queue().exec(program, [a, b, c], (whole(device), 1, 1), block).submit()
    np.testing.assert_array_equal(get(device, c), WANTED)


def test_launches_run_in_order(device: Device, program: Program) -> None:
    x, zero = put(device, ramp(COUNT)), put(device, np.zeros(COUNT, np.int32))
    y = device.alloc(4 * COUNT)
    for _ in range(3):  # x = 3 * (3 * x)
        device.launch(program, [x, zero, y], whole(device))
        device.launch(program, [y, zero, x], whole(device))
    np.testing.assert_array_equal(get(device, x), 3**6 * ramp(COUNT))


def both(device: Device, program: object, args: object, grid: object) -> list[Callable[[], object]]:
    """The same launch by both ways."""
    return [
        lambda: device.launch(program, args, grid),
        lambda: device.compute_queue().exec(program, args, (grid, 1, 1)),
    ]


def test_a_grid_is_a_positive_integer(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    for grid in (0, -1, 1.0, "1", None, True, 1 << 64):
        for call in both(device, program, [a, b, c], grid):
            with refused(BadArgument):
                call()
    check((get(device, c) == UNTOUCHED).all(), "something ran")


def test_grids_end_where_limits_say(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    limits = device.limits
    for axis, most in enumerate(limits.max_grid):
        grid = [1, 1, 1]
        grid[axis] = most + 1
        with refused(BadArgument):
            device.compute_queue().exec(program, [a, b, c], tuple(grid))
    with refused(BadArgument):
        device.launch(program, [a, b, c], limits.max_grid[0] + 1)
    for grid in ((1,), (1, 1), (1, 1, 1, 1), 1, None, "111"):
        with refused(BadArgument):
            device.compute_queue().exec(program, [a, b, c], grid)


def test_grids_of_three_dimensions(device: Device, program: Program) -> None:
    """The kernel looks at x alone: more workgroups along y and z write the same once more."""
    a, b, c = operands(device)
    shape = [min(2, most) for most in device.limits.max_grid[1:]]
    device.compute_queue().exec(program, [a, b, c], (whole(device), *shape)).submit()
    np.testing.assert_array_equal(get(device, c), WANTED)


def test_a_block_is_three_positive_integers(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    for block in ((0, 1, 1), (1, 1), (-1, 1, 1), (1.0, 1, 1), 64, "111"):
        with refused(BadArgument):
            device.compute_queue().exec(program, [a, b, c], (1, 1, 1), block)


def test_blocks_end_where_the_kernel_says(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    most = min(BLOCK, device.limits.max_block)
    for block in ((most + 1, 1, 1), (1, most + 1, 1), (most, 2, 1), (1, 1, 1 << 40)):
        with refused(BadArgument):
            device.compute_queue().exec(program, [a, b, c], (1, 1, 1), block)
    device.compute_queue().exec(program, [a, b, c], (1, 1, 1), (1, 1, 1)).submit()
    got = get(device, c)
    check(got[0] == WANTED[0] and (got[1:] == UNTOUCHED).all(), "a block of one is one lane")


def test_shared_memory_of_a_launch_is_added_or_refused(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    queue = device.compute_queue()
    for bad in (-4, 4.0, "4", None):
        with refused(BadArgument):
            queue.exec(program, [a, b, c], (1, 1, 1), shared_bytes=bad)
    with refused(BadArgument, Unsupported):
        queue.exec(program, [a, b, c], (1, 1, 1), shared_bytes=device.limits.shared_bytes + 1)
    try:
        queue.exec(program, [a, b, c], (whole(device), 1, 1), shared_bytes=64).submit()
    except Unsupported as error:
        check("shared memory" in error.message or "local memory" in error.message, f"{error}")
        return
    except BadArgument as error:
        check("arguments" in error.message, f"{error}")  # OpenCL: a parameter that is not there
        return
    np.testing.assert_array_equal(get(device, c), WANTED)


def test_an_argument_is_a_buffer_or_an_integer(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    for value in (1.5, "a", None, b"x", 1 << 64, -(1 << 63) - 1):
        for args in ([value, b, c], [a, b, value]):
            for call in both(device, program, args, 1):
                with refused(BadArgument):
                    call()
    check((get(device, c) == UNTOUCHED).all(), "something ran")


def test_the_number_of_arguments_is_the_kernel_s(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    for args in ([], [a, b], [a, b, c, c]):
        for call in both(device, program, args, 1):
            with refused(BadArgument):
                call()


def test_what_was_freed_or_closed_is_not_launched(entry: Entry, device: Device) -> None:
    a, b, c = operands(device)
    mine = device.load(entry.build(combine(device.limits, COUNT), device))
    b.free()
    for call in both(device, mine, [a, b, c], 1):
        with refused(UseAfterFree):
            call()
    mine.close()
    for call in both(device, mine, [a, a, c], 1):
        with refused(UseAfterFree):
            call()
    with refused(UseAfterFree):
        mine.close()
    check((get(device, c) == UNTOUCHED).all(), "something ran")


@pytest.mark.parametrize("program", [None, "k", object()])
def test_what_is_no_program(device: Device, program: object) -> None:
    for call in both(device, program, [], 1):
        with refused(BadArgument):
            call()


def test_code_of_another_arch_or_none(entry: Entry, device: Device) -> None:
    good = entry.build(combine(device.limits, COUNT), device)
    with refused(Unsupported):
        device.load(replace(good, arch="z80"))
    for wrong in ({"image": b""}, {"entry": 1 << 40}, {"entry": -1}):
        with pytest.raises(DeviceError):
            device.load(replace(good, **wrong))


def test_the_largest_workgroup_with_all_shared_memory(entry: Entry, device: Device) -> None:
    limits = device.limits
    if not entry.can(LANES):
        check((limits.max_block, limits.shared_bytes, limits.wave_lanes) == (1, 0, 1), f"{limits}")
        return
    made = entry.build(mirror(limits), device)
    needs = made.resources
    check((needs.block, needs.shared_bytes) == (limits.max_block, limits.shared_bytes), f"{needs}")
    a, b = put(device, ramp(limits.max_block)), device.alloc(4 * limits.max_block)
    device.launch(device.load(made), [a, b], 1)
    np.testing.assert_array_equal(get(device, b), ramp(limits.max_block)[::-1])


def test_more_than_limits_is_refused(entry: Entry, device: Device) -> None:
    good, limits = entry.build(combine(device.limits, COUNT), device), device.limits
    for needs in (
        replace(good.resources, block=limits.max_block + 1, max_block=0),
        replace(good.resources, shared_bytes=limits.shared_bytes + 1),
    ):
        with refused(Unsupported):
            device.load(replace(good, resources=needs))
    for needs in (Resources(block=-1), Resources(shared_bytes=-1), Resources(scratch_bytes=-1)):
        with pytest.raises(DeviceError):
            device.load(replace(good, resources=needs))
