"""How many arguments a launch of the CPU takes: given by the binary or not, it costs the same."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np
import pytest

from drivers.base.contracts import Arg, Binary, Program
from drivers.base.errors import BadArgument, UseAfterFree
from drivers.cpu import CpuDevice
from tests.cpu_harness import int64s, kernel, open_device, read
from tests.support import check


@pytest.fixture
def device() -> Iterator[CpuDevice]:
    with open_device() as opened:
        yield opened


def taking(nargs: int) -> Binary:
    """A kernel that adds its second argument, and says how many it takes."""
    made = kernel("bump")
    args = tuple(Arg(8 * number, 8, number == 0) for number in range(nargs))
    return replace(made, resources=replace(made.resources, args=args))


def opcodes(work: Callable[[], object]) -> int:
    """How many opcodes of Python it runs."""
    seen = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal seen
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        seen += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return seen


def test_a_number_that_nobody_said_costs_nothing(device: CpuDevice) -> None:
    out = int64s(device, [0])
    costs = []
    for binary in (taking(2), kernel("bump")):
        program = device.load(binary)
        device.launch(program, (out, 1), 1)

        def work(program: Program = program) -> None:
            device.launch(program, (out, 1), 1)

        opcodes(work)  # from Python 3.12 on, code that runs reports none before its next call
        costs.append(opcodes(work))
    check(costs[0] == costs[1] > 0, f"{costs}")
    np.testing.assert_array_equal(read(out), [6])


@pytest.mark.parametrize("count", [2, 62, 63, 64, 65, 200])
def test_every_number_reaches_the_kernel(device: CpuDevice, count: int) -> None:
    out, args = int64s(device, [0]), range(count - 2)
    for binary in (taking(count), kernel("bump")):
        device.launch(device.load(binary), [out, 4, *args], 1)
    np.testing.assert_array_equal(read(out), [8])


@pytest.mark.parametrize("count", [2, 63, 64])
def test_another_number_is_refused(device: CpuDevice, count: int) -> None:
    out, gate, program = int64s(device, [0]), device.new_signal(), device.load(taking(count))
    for parked in (False, True):
        if parked:
            device.compute_queue().wait(gate, 1).submit()
        for wrong in (0, count - 1, count + 1, 70):
            with pytest.raises(BadArgument, match=f"takes {count} arguments, not {wrong}"):
                device.launch(program, [out, *range(70)][:wrong], 1)
    gate.set(1)
    device.synchronize()
    np.testing.assert_array_equal(read(out), [0])
    program.close()
    for given in (count, count - 1):
        with pytest.raises(UseAfterFree):
            device.launch(program, [out, *range(70)][:given], 1)
