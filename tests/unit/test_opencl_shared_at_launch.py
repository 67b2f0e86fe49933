"""Local memory whose size a launch chooses: the last parameter of an OpenCL kernel."""

from __future__ import annotations

import numpy as np
import pytest

from drivers.base.contracts import Arg, Binary, Program, Resources
from drivers.base.errors import BadArgument, Unsupported
from drivers.cl.building import builder
from drivers.cl.device import ClDevice
from drivers.cl.graph import CHAINED_AT
from tests.contract.arrays import get, put, ramp
from tests.opencl import PLATFORMS, opencl
from tests.support import check

SOURCE = """
kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void k_turns(global const int *in, global int *out, local int *more) {
  size_t lane = get_local_id(0), base = get_group_id(0) * 16;
  more[lane] = in[base + lane];
  barrier(CLK_LOCAL_MEM_FENCE);
  out[base + lane] = more[15 - lane];
}
"""
COUNT = 64
platforms = pytest.mark.parametrize("platform", PLATFORMS)


def turns(device: ClDevice) -> Program:
    code = builder(device.arch).build(SOURCE, 16)
    check(code.nargs == 3, f"{code.nargs}")
    args = tuple(Arg(8 * number, 8, buffer=True) for number in range(code.nargs))
    needs = Resources(block=16, max_block=16, shared_bytes=code.shared_bytes, args=args)
    return device.load(Binary(device.arch, "turns", code.encode(), 0, resources=needs))


@platforms
def test_local_memory_is_given_at_launch(platform: str) -> None:
    """Eagerly, and in a graph that is replayed until its launches are recorded."""
    wanted = ramp(COUNT).reshape(4, 16)[:, ::-1].ravel()
    with opencl(platform, CL_LANES="1") as device:
        program, source = turns(device), put(device, ramp(COUNT))
        for replays in (0, CHAINED_AT + 2):
            outs = [device.alloc(4 * COUNT) for _ in range(3)]
            queue = device.compute_queue()
            for out, nbytes in zip(outs, (64, 256, 64), strict=True):
                queue.exec(program, [source, out], (4, 1, 1), shared_bytes=nbytes)
            if replays:
                graph = queue.bind()
                for _ in range(replays):
                    graph.replay()
            else:
                queue.submit()
            for out in outs:
                np.testing.assert_array_equal(get(device, out), wanted)


@platforms
def test_what_is_wrong_is_refused(platform: str) -> None:
    with opencl(platform, CL_LANES="1") as device:
        program, a = turns(device), device.alloc(4 * COUNT)
        queue = device.compute_queue()
        for bad in (-1, 1.0, device.limits.shared_bytes + 1):
            with pytest.raises(BadArgument, match="shared memory"):
                queue.exec(program, [a, a], (4, 1, 1), shared_bytes=bad)
        with pytest.raises(BadArgument, match="2 arguments"):
            queue.exec(program, [a, a], (4, 1, 1))
        with pytest.raises(BadArgument, match="4 arguments"):
            queue.exec(program, [a, a, a], (4, 1, 1), shared_bytes=64)


@platforms
def test_a_processor_s_shape_has_no_local_memory(platform: str) -> None:
    with opencl(platform, CL_LANES="0") as device, pytest.raises(Unsupported, match="CL_LANES"):
        device.compute_queue().exec(object(), [], shared_bytes=64)
