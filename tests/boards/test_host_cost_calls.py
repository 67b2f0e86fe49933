"""What a launch and a replay cost the host, counted: Python calls, which are most of it."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from benchmarks.host_cost import BUFFER_BYTES, alone
from boards.front import Setup
from compilers.amd.smoke import BLOCK, firmware
from drivers.base.contracts import Param
from tests.support import check

STEPS, TIMES = 100, 60


def calls(operation: Callable[[], object]) -> float:
    """Calls of Python functions in one operation, over laps of a ring."""
    count = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    operation()
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        for _ in range(TIMES):
            operation()
    finally:
        sys.setprofile(before)
    return count / TIMES


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_calls_of_a_launch_and_of_a_replay(queue: str) -> None:
    """Fewer than before replays overlapped and handlers might launch.

    Those took 6 (PM4) and 7 (AQL) a launch, 10 and 9 a replay, 14 and 13 one with a new argument.
    """
    setup = Setup("gfx1100", aql=queue == "AQL")
    with alone(setup) as (device, _):
        program = device.load(firmware("smoke", setup.chip))
        buffers = [device.alloc(BUFFER_BYTES) for _ in range(3)]
        arguments: list[Any] = [*buffers, BLOCK]
        launch = calls(partial(device.launch, program, arguments, 1))
        recorded = device.compute_queue()
        for _ in range(STEPS):
            recorded.exec(program, [Param(0), buffers[1], buffers[2], BLOCK])
        graph, values = recorded.bind(), [[buffers[0]], [buffers[1]]]
        same = calls(partial(graph.replay, values[0]))
        turns = itertools.cycle(values)
        changed = calls(lambda: graph.replay(next(turns))) - 1
        graph.close()
    check(0 < launch < 5 and 0 < same < 6 and 0 < changed < 14, f"{launch} {same} {changed}")
