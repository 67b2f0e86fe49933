"""Command queues and signals on every device: order, waiting, time, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from drivers.base.contracts import CommandQueue, Device, Param, Program, Signal
from drivers.base.errors import BadArgument, DeviceTimeout, Hang, Unsupported, UseAfterFree
from tests.contract.arrays import get, put, ramp, refused
from tests.contract.conftest import COUNT
from tests.contract.test_launches import WANTED, operands, whole
from tests.support import check

SOON_S = 0.02
"""On a board's own clock, which waits skip."""


def queues(device: Device) -> list[CommandQueue]:
    return [device.compute_queue(), device.copy_queue()]


def test_queues_say_what_they_take(device: Device, program: Program) -> None:
    check(device.compute_queue().can_exec and device.copy_queue().can_copy, "their names")
    for queue in queues(device):
        a, b, c = operands(device)
        if queue.can_exec:
            queue.exec(program, [a, b, c], (whole(device), 1, 1)).submit()
            np.testing.assert_array_equal(get(device, c), WANTED)
        else:
            with refused(Unsupported):
                queue.exec(program, [a, b, c])
        if queue.can_copy:
            queue.copy(c, b, 4 * COUNT).submit()
            np.testing.assert_array_equal(get(device, c), ramp(COUNT, 1000))
        else:
            with refused(Unsupported):
                queue.copy(c, b, 4)


def test_a_builder_does_nothing_before_submit(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    signal = device.new_signal()
    queue = device.compute_queue()
    queue.exec(program, [a, b, c], (whole(device), 1, 1)).barrier().signal(signal, 1)
    device.synchronize()
    check((get(device, c) == -1).all() and signal.value == 0, "it ran")
    queue.submit()
    signal.wait(1)
    np.testing.assert_array_equal(get(device, c), WANTED)
    queue.submit()  # empty again
    device.synchronize()


def test_what_a_queue_refuses_it_forgets(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    signal = device.new_signal()
    queue = device.compute_queue().exec(program, [a, b, c], (whole(device), 1, 1))
    wrong: tuple[Callable[[], object], ...] = (
        lambda: queue.exec(program, [a, b, 1.5]),
        lambda: queue.exec(program, [a, b]),
        lambda: queue.wait(signal, -1),
        lambda: queue.signal(signal, 1 << device.limits.signal_bits),
        lambda: queue.signal(c, 1),
        lambda: queue.timestamp(None),
        lambda: queue.exec(program, [a, b, Param(-1)]),
        lambda: queue.exec(program, [Param(0), Param(1), 1.5]),
        lambda: queue.exec(program, [Param(0)]),
    )
    for call in wrong:
        with refused(BadArgument):
            call()
    queue.signal(signal, 1).submit()
    signal.wait(1)
    np.testing.assert_array_equal(get(device, c), WANTED)


def test_a_dependency_between_two_queues(device: Device, program: Program) -> None:
    """copy a -> x, then x is computed with, then the result is copied: three signals in a row."""
    a, b, c = operands(device)
    x, out = device.alloc(4 * COUNT), device.alloc(4 * COUNT)
    signal = device.new_signal()
    copy, compute = device.copy_queue(), device.compute_queue()
    compute.wait(signal, 1).exec(program, [x, b, c], (whole(device), 1, 1)).signal(signal, 2)
    compute.submit()  # first what waits
    copy.copy(x, a, 4 * COUNT).signal(signal, 1).wait(signal, 2).copy(out, c, 4 * COUNT)
    copy.signal(signal, 3).submit()
    signal.wait(3)
    np.testing.assert_array_equal(get(device, out), WANTED)


def test_kernels_with_a_barrier_between_them(device: Device, program: Program) -> None:
    x, zero = put(device, ramp(COUNT)), put(device, np.zeros(COUNT, np.int32))
    y, grid = device.alloc(4 * COUNT), (whole(device), 1, 1)
    queue = device.compute_queue()
    for _ in range(2):
        queue.exec(program, [x, zero, y], grid).barrier()
        queue.exec(program, [y, zero, x], grid).barrier()
    queue.submit()
    np.testing.assert_array_equal(get(device, x), 3**4 * ramp(COUNT))


def test_copies_of_parts_and_of_nothing(device: Device) -> None:
    src, dst = put(device, ramp(64)), put(device, np.full(64, -1, np.int32))
    device.copy_queue().copy(dst, src, 0).copy(dst, src, 20).submit()
    wanted = np.full(64, -1, np.int32)
    wanted[:5] = ramp(5)
    np.testing.assert_array_equal(get(device, dst), wanted)
    device.copy_queue().copy(dst, dst, 256).submit()
    np.testing.assert_array_equal(get(device, dst), wanted)


@pytest.mark.parametrize("nbytes", [-1, 257, 1.0, None])
def test_copies_that_do_not_fit(device: Device, nbytes: object) -> None:
    small, large = put(device, ramp(64)), device.alloc(1024)
    for pair in ((small, large), (large, small)):
        with refused(BadArgument):
            device.copy_queue().copy(*pair, nbytes)
    for other in (5, None, "b"):
        with refused(BadArgument):
            device.copy_queue().copy(small, other, 4)


def test_what_was_freed_between_building_and_submit(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    queue = device.compute_queue().exec(program, [a, b, c], (whole(device), 1, 1))
    a.free()
    with refused(UseAfterFree):
        queue.submit()
    check((get(device, c) == -1).all(), "it ran")


@pytest.mark.parametrize("index", [-1, 1.5, None, True, 1 << 40])
def test_params_that_are_no_place(device: Device, program: Program, index: object) -> None:
    a, b, _ = operands(device)
    with refused(BadArgument):
        device.compute_queue().exec(program, [a, b, Param(index)])
    for pair in ((a, Param(index)), (Param(index), a)):
        with refused(BadArgument):
            device.copy_queue().copy(*pair, 4)


def test_open_params_are_not_submitted(device: Device, program: Program) -> None:
    a, b, _ = operands(device)
    queue = device.compute_queue().exec(program, [a, b, Param(0)], (1, 1, 1))
    with refused(BadArgument):
        queue.submit()


# Signals


def test_a_signal_only_grows(device: Device) -> None:
    signal = device.new_signal(5)
    signal.set(5)
    signal.set(9)
    check(signal.value == 9, f"{signal.value}")
    with refused(BadArgument):
        signal.set(8)
    signal.wait(9, SOON_S)
    signal.wait(0, SOON_S)


def test_signals_are_as_wide_as_limits_say(device: Device) -> None:
    most = (1 << device.limits.signal_bits) - 1
    signal = device.new_signal(most - 2)
    signal.set(most - 1)
    device.compute_queue().wait(signal, most - 1).signal(signal, most).submit()
    signal.wait(most)
    check(signal.value == most, f"{signal.value:#x}")
    for value in (most + 1, -1, 1.0, None, "1"):
        for call in (
            lambda value=value: device.new_signal(value),
            lambda value=value: signal.set(value),
            lambda value=value: device.compute_queue().signal(signal, value),
            lambda value=value: device.copy_queue().wait(signal, value),
        ):
            with refused(BadArgument):
                call()


def test_a_time_out_destroys_nothing(device: Device, program: Program) -> None:
    a, b, c = operands(device)
    gate, done = device.new_signal(), device.new_signal()
    queue = device.compute_queue().wait(gate, 1)
    queue.exec(program, [a, b, c], (whole(device), 1, 1)).signal(done, 1).submit()
    for _ in range(2):
        with pytest.raises((DeviceTimeout, Hang)) as caught:
            done.wait(1, SOON_S)
        check(caught.value.hint, "what to do")
    gate.set(1)
    done.wait(1)
    np.testing.assert_array_equal(get(device, c), WANTED)


def test_a_time_out_tells_the_value(device: Device) -> None:
    signal = device.new_signal(3)
    with refused(DeviceTimeout) as _:
        signal.wait(4, SOON_S)
    with pytest.raises(DeviceTimeout) as caught:
        signal.wait(4, SOON_S)
    check(caught.value.last == 3, f"{caught.value.last}")


def test_time_goes_on(device: Device) -> None:
    first, second = device.new_signal(), device.new_signal()
    for queue in queues(device):
        queue.timestamp(first).barrier().signal(second, second.value + 1).submit()
        second.wait(second.value)
        device.synchronize()
        check(0 < first.timestamp_ns <= second.timestamp_ns, "the order of steps")
        check(first.value == 0, "a time is no value")


def test_a_closed_signal_is_dead(device: Device) -> None:
    signal = device.new_signal(1)
    signal.close()
    uses: tuple[Callable[[], object], ...] = (
        signal.close, lambda: signal.value, lambda: signal.timestamp_ns, lambda: signal.set(2),
        lambda: signal.wait(1, 0), lambda: device.compute_queue().wait(signal, 1),
        lambda: device.copy_queue().signal(signal, 1),
        lambda: device.copy_queue().timestamp(signal),
    )  # fmt: skip
    for use in uses:
        with refused(UseAfterFree):
            use()


def test_signals_match_the_protocol(device: Device) -> None:
    check(isinstance(device.new_signal(), Signal), "a method is missing")
