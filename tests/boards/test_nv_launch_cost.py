"""What a launch costs NVIDIA's driver, counted: Python calls, which are most of it."""

from __future__ import annotations

import pytest

from tests.boards.nv_harness import add, binary, device_on
from tests.boards.nv_unread import launching, unread
from tests.boards.test_host_cost_calls import calls
from tests.support import check


@pytest.mark.parametrize("chip", ["ga102", "gh100"])
def test_calls_of_a_launch(chip: str) -> None:
    """Words of a launch are prepared: it took 18 calls while each one looked its values up."""
    with launching(chip) as launch:
        count = calls(launch)
    check(0 < count <= 8, f"{count} calls")


def test_a_queue_that_was_not_read_goes_on() -> None:
    with device_on(kernel=add) as (device, _):
        program, a = device.load(binary(device)), device.alloc(16)
        device.copy_in(a, memoryview(b"\1\0\0\0" * 4))
        with unread(device):
            device.launch(program, [a, a, a, 4], 1)
        device.launch(program, [a, a, a, 4], 1)
        out = bytearray(16)
        device.copy_out(memoryview(out), a)
        check(out == b"\2\0\0\0" * 4, out.hex())
