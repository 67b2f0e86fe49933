"""Kernels with many arguments: each launch in a queue keeps its own until it has run."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest

from drivers.amd.aql_ring import SLOTS
from drivers.base.contracts import Arg
from drivers.base.errors import Unsupported
from tests.boards.driver_harness import device_on, get, kernel, put
from tests.support import check

LANES = 64
MOST = 512
"""As many pointers as 4096 bytes hold, the most that a program may take."""
QUEUES = (("gfx1100", "PM4"), ("gfx1100", "AQL"), ("gfx942", "AQL"))
_HIDDEN = (
    "dispatch-ptr", "queue-ptr", "dispatch-id", "implicitarg-ptr", "workgroup-id-y",
    "workgroup-id-z", "workitem-id-y", "workitem-id-z", "heap-ptr", "hostcall-ptr",
    "multigrid-sync-arg", "default-queue", "completion-action", "lds-kernel-id",
)  # fmt: skip


def copies_the_last(count: int) -> str:
    """k(p0, ..., pN): p0[i] = pN[i], as LLVM IR."""
    parameters = ", ".join(f"ptr addrspace(1) %p{number}" for number in range(count))
    hidden = " ".join(f'"amdgpu-no-{name}"' for name in _HIDDEN)
    return f"""
declare i32 @llvm.amdgcn.workitem.id.x()
define amdgpu_kernel void @k({parameters}) #0 {{
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %w = zext i32 %i to i64
  %a = getelementptr i32, ptr addrspace(1) %p{count - 1}, i64 %w
  %v = load i32, ptr addrspace(1) %a
  %b = getelementptr i32, ptr addrspace(1) %p0, i64 %w
  store i32 %v, ptr addrspace(1) %b
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="{LANES},{LANES}" {hidden} }}
"""


@pytest.mark.parametrize("count", [129, MOST])
@pytest.mark.parametrize(("chip", "queue"), QUEUES)
def test_launches_behind_a_signal_keep_their_arguments(chip: str, queue: str, count: int) -> None:
    """The queue's last slot is among them, and the first one behind it."""
    with device_on(chip, queue) as (_, device):
        program = device.load(kernel(copies_the_last(count), chip, LANES))
        check(program.kernel.kernarg_bytes == 8 * count)
        seven, one, three = (put(device, np.full(LANES, v, np.int32)) for v in (7, 1, 3))
        outs = [put(device, np.zeros(LANES, np.int32)) for _ in range(6)]
        ring = device.compute
        if queue == "AQL":
            for _ in range(SLOTS - 4 - ring.put % SLOTS):
                device.launch(program, [outs[0], *[three] * (count - 1)], 1)
        go = device.new_signal()
        steps = device.compute_queue().wait(go, 1)
        for number, out in enumerate(outs):
            steps.exec(program, [out, *[three] * (count - 2), one if number % 2 else seven])
        steps.submit()
        go.set(1)
        got = [int(get(device, out, "int32")[0]) for out in outs]
        check(got == [7, 1] * 3, f"{got}")


@pytest.mark.parametrize(("chip", "queue"), QUEUES)
def test_a_refused_program_is_freed_once(chip: str, queue: str) -> None:
    """Arguments that a launch cannot fill are refused when all of it was allocated."""
    with device_on(chip, queue) as (board, device):
        good = kernel(copies_the_last(3), chip, LANES)
        device.load(good).close()
        device.synchronize()
        before = board.baseline()
        bad = replace(good, resources=replace(good.resources, args=(Arg(0, 1, False),)))
        for _ in range(2):
            with pytest.raises(Unsupported):
                device.load(bad)
            gc.collect()
            device.load(good).close()  # gives back what was returned
            device.synchronize()
        check(board.baseline() == before, f"{board.baseline()}, before {before}")
