"""Of all that the driver allocates through KFD only code and packets are executable."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from boards.amd.kfd.types import EXECUTABLE, WRITABLE
from drivers.amd.kfd.bo import Bo
from drivers.base.contracts import Param
from tests.boards.driver_harness import add, device_on, get, put
from tests.support import check

N = 64
DATA = {"event page", "staging", "signals", "exception report", "AMD:0 compute queue pointers",
        "AMD:0 copy queue pointers", "AMD:0 compute queue EOP buffer",
        "AMD:0 compute queue save area"}  # fmt: skip
PACKETS = {"AMD:0 compute queue ring", "AMD:0 copy queue ring", "graph"}
"""ROCR gives rings and buffers of PM4 packets the right to execute, and so does this driver."""


@pytest.mark.parametrize(("chip", "queue"), [("gfx1100", "PM4"), ("gfx942", "AQL")])
def test_what_is_executable(chip: str, queue: str) -> None:
    with device_on(chip, queue) as (board, device):
        x = put(device, np.ones(N, np.float32))
        out = device.alloc(4 * N)
        program = device.load(add(chip))
        graph = device.compute_queue().exec(program, [Param(0), x, out, N], (1, 1, 1)).bind()
        graph.replay([x])
        np.testing.assert_array_equal(get(device, out).view(np.float32), np.full(N, 2, np.float32))
        by_va = {one.va: one.flags for one in board.process.memory.buffers}
        found = {
            bo.name: by_va[bo.gpu_va]
            for bo in gc.get_objects()
            if type(bo) is Bo and bo.gpu is device.iface
        }
        ours = {name for name, flags in found.items() if flags & EXECUTABLE}
        packets = PACKETS | ({"arguments"} if queue == "AQL" else set())
        check(ours == packets | {"trap handler", "code of k"}, f"{ours}")
        check(found.keys() >= DATA, f"{DATA - found.keys()}")
        check(not found["trap handler"] & WRITABLE, "no kernel can change it")
