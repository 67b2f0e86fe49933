"""What a launch and a replay cost NVIDIA's driver, counted: Python calls, which are most of it."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import pytest

from drivers.base.contracts import Param
from drivers.nv.unread import leave_unread
from tests.boards.nv_harness import LANES, binary, device_on
from tests.boards.test_host_cost_calls import STEPS, calls
from tests.support import check

BUFFER_BYTES = 4096


@pytest.mark.parametrize("chip", ["ga102", "gh100", "tu102"])
def test_calls_of_a_launch_and_of_a_replay(chip: str) -> None:
    """A launch took 18 calls while each one looked its values up, a kernel of a graph as many."""
    with device_on(chip) as (device, _):
        program = device.load(binary(device))
        buffers = [device.alloc(BUFFER_BYTES) for _ in range(3)]
        arguments: list[Any] = [*buffers, LANES]
        recorded = device.compute_queue()
        for _ in range(STEPS):
            recorded.exec(program, [Param(0), *buffers[1:], LANES])
        graph, values = recorded.bind(), [[buffers[0]], [buffers[1]]]
        left = leave_unread(device)
        launch = calls(partial(device.launch, program, arguments, 1))
        same = calls(partial(graph.replay, values[0]))
        turns = itertools.cycle(values)
        changed = calls(lambda: graph.replay(next(turns))) - 1
        graph.close()
        left.close()
    check(0 < launch <= 8 and 0 < same <= 6 and 0 < changed <= 14, f"{launch} {same} {changed}")


def test_a_device_that_is_left_alone_has_written_what_it_says() -> None:
    """Launches and copies are in the rings, and the doorbell has the channel's token."""
    with device_on() as (device, board):
        program, a = device.load(binary(device)), device.alloc(BUFFER_BYTES)
        done = []
        board.hardware.trace = lambda name, facts: done.append(name)
        left = leave_unread(device)
        done.clear()
        compute, copies = device.pair.rings
        before = compute.put, copies.put
        device.launch(program, [a, a, a, 4], 1)
        check(left.page[0x90:0x94] == b"\1\0\0\0", left.page[0x90:0x94].hex())
        left.staged(a, memoryview(bytearray(BUFFER_BYTES)))()
        check(left.page[0x90:0x94] == b"\2\0\0\0", left.page[0x90:0x94].hex())
        check(compute.put > before[0] and copies.put == before[1] + 1, f"{compute.put}")
        check(compute.write_pointer[0] == compute._count, "GPPut")
        check("GP entry done" not in done and "launch" not in done, f"{done}")
        left.close()
