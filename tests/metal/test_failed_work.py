"""Command buffers that fail on the made-up Metal: who is told, and what waits for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

import numpy as np
import pytest

from drivers.base.errors import BadArgument, DeviceFault, Hang
from drivers.metal import ring
from drivers.metal.device import MetalDevice
from tests.contract.arrays import get, put, ramp
from tests.metal.made_up import metal, runtime
from tests.metal.test_device import COUNT, GRID, operands, program
from tests.support import check

FAULT = 3
"""MTLCommandBufferErrorPageFault."""
SOON_S = 2.0
MANY = 12
SCHEDULED = 3
"""MTLCommandBufferStatusScheduled."""


@contextmanager
def _failing() -> Iterator[None]:
    """What is submitted inside is held, and its first command buffer fails."""
    lib = runtime().lib
    lib.made_up_hold(1)
    try:
        yield
        lib.made_up_fail(FAULT)
    finally:
        lib.made_up_hold(0)


def _untouched(device: MetalDevice) -> None:
    """Nothing is left to raise, and the device computes."""
    device.synchronize(SOON_S)
    kernel, (a, b, c) = program(device), operands(device)
    device.launch(kernel, [a, b, c], 4)
    np.testing.assert_array_equal(get(device, c), 3 * ramp(COUNT) + ramp(COUNT, 5))


def test_a_wait_for_the_signal_of_failed_work_raises() -> None:
    with metal() as device:
        kernel, (a, b, c), signal = program(device), operands(device), device.new_signal()
        with _failing():
            device.compute_queue().exec(kernel, [a, b, c], GRID).signal(signal, 1).submit()
        with pytest.raises(DeviceFault, match="METAL:0 compute"):
            signal.wait(1, SOON_S)
        signal.wait(1, SOON_S)  # an error is raised once
        np.testing.assert_array_equal(get(device, c), ramp(COUNT, -1))
        with pytest.raises(BadArgument, match="cannot go back"):
            signal.set(0)
        _untouched(device)


def test_the_other_queue_goes_on_behind_failed_work() -> None:
    with metal() as device:
        kernel, (a, b, c), signal = program(device), operands(device), device.new_signal()
        with _failing():
            device.copy_queue().copy(b, a, 4 * COUNT).signal(signal, 1).submit()
            device.compute_queue().wait(signal, 1).exec(kernel, [a, b, c], GRID).submit()
        with pytest.raises(DeviceFault, match="METAL:0 copy"):
            device.synchronize(SOON_S)
        check(signal.value == 1, "its value is set")
        _untouched(device)


def test_a_device_closes_behind_failed_work() -> None:
    with metal() as device:
        kernel, (a, b, c), signal = program(device), operands(device), device.new_signal()
        with _failing():
            device.copy_queue().copy(b, a, 4 * COUNT).signal(signal, 1).submit()
            device.compute_queue().wait(signal, 1).exec(kernel, [a, b, c], GRID).submit()
        with pytest.raises(DeviceFault, match="METAL:0 copy"):
            device.close()


def test_a_device_closes_behind_much_failed_work() -> None:
    """Each failure is seen alone, as of work that fails one after the other."""
    with metal() as device:
        kernel, (a, b, c), lib = program(device), operands(device), runtime().lib
        lib.made_up_hold(1)
        for _ in range(MANY):
            device.compute_queue().exec(kernel, [a, b, c], GRID).submit()
        send, seen = device.api.send, [0]
        status = send["status"]

        def late(commands: int) -> int:
            seen[0] += 1
            found: int = status(commands)
            return found if seen[0] % 2 else SCHEDULED

        send["status"] = late
        lib.made_up_fail(-FAULT)
        lib.made_up_hold(0)
        try:
            with pytest.raises(DeviceFault, match="METAL:0 compute"):
                device.close()
        finally:
            lib.made_up_fail(0)
        check(runtime().live("MTLCommandBuffer") == 0, "all have ended")
        check(seen[0] >= MANY, "their states were read")


def test_what_waits_for_failed_work_is_dropped() -> None:
    with metal() as device:
        kernel, (a, b, c) = program(device), operands(device)
        out = put(device, ramp(COUNT, 7))
        done, copied, last = (device.new_signal() for _ in range(3))
        with _failing():
            device.compute_queue().exec(kernel, [a, b, c], GRID).signal(done, 1).submit()
        for _ in range(100_000):
            if done.value:
                break
        device.copy_queue().wait(done, 1).copy(out, c, 4 * COUNT).signal(copied, 1).submit()
        device.compute_queue().wait(copied, 1).exec(kernel, [a, b, out], GRID).signal(
            last, 1
        ).submit()
        with pytest.raises(DeviceFault, match="METAL:0 compute"):
            last.wait(1, SOON_S)
        np.testing.assert_array_equal(get(device, out), ramp(COUNT, 7))
        device.copy_queue().wait(done, 1).copy(out, a, 4 * COUNT).submit()
        np.testing.assert_array_equal(get(device, out), ramp(COUNT), "it was raised: all goes on")
        _untouched(device)


def test_more_command_buffers_than_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with metal() as device:
        kernel, (a, b, c), queue = program(device), operands(device), device.compute_queue()
        lib = runtime().lib
        lib.made_up_hold(1)
        try:
            for _ in range(ring.MOST_RUNNING):
                queue.exec(kernel, [a, b, c], GRID).submit()
            later = Timer(0.1, lib.made_up_hold, [0])
            later.start()
            for _ in range(ring.MOST_BUFFERS):
                queue.exec(kernel, [a, b, c], GRID).submit()
            later.join()
            device.synchronize(SOON_S)
            monkeypatch.setattr(ring, "PATIENCE_S", 0.05)
            lib.made_up_hold(1)
            for _ in range(ring.MOST_RUNNING):
                queue.exec(kernel, [a, b, c], GRID).submit()
            with pytest.raises(Hang, match="METAL:0 compute has 512 command buffers"):
                queue.exec(kernel, [a, b, c], GRID).submit()
        finally:
            lib.made_up_hold(0)
        _untouched(device)


def test_a_graph_behind_failed_work_is_dropped() -> None:
    with metal() as device:
        kernel, (a, b, c), done = program(device), operands(device), device.new_signal()
        out = put(device, ramp(COUNT, 7))
        graph = device.copy_queue().wait(done, 1).copy(out, a, 4 * COUNT).bind()
        with _failing():
            device.compute_queue().exec(kernel, [a, b, c], GRID).signal(done, 1).submit()
        for _ in range(100_000):
            if done.value:
                break
        graph.replay()
        with pytest.raises(DeviceFault, match="METAL:0 compute"):
            device.synchronize(SOON_S)
        np.testing.assert_array_equal(get(device, out), ramp(COUNT, 7))
        graph.replay()
        np.testing.assert_array_equal(get(device, out), ramp(COUNT))
        graph.close()
