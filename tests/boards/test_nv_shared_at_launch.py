"""Shared memory whose size a launch chooses, in kernels of nvrtc, over NVIDIA's driver."""

from __future__ import annotations

import functools
from contextlib import closing

import numpy as np
import pytest

from compilers.nv import cubin, nvrtc
from drivers.base.contracts import Binary
from drivers.base.errors import BadArgument, Unsupported
from tests.boards.nv_harness import device_on
from tests.contract.arrays import get, put
from tests.nv_cubins import needs_nvrtc
from tests.support import check

pytestmark = needs_nvrtc
SOURCE = """
extern __shared__ unsigned more[];
extern "C" __global__ void turns(unsigned *out, unsigned n) {
  __shared__ unsigned fixed[8];
  unsigned lane = threadIdx.x;
  if (lane < 8) fixed[lane] = 100 + lane;
  for (unsigned i = lane; i < n; i += blockDim.x) more[i] = 3 * i;
  __syncthreads();
  for (unsigned i = lane; i < n; i += blockDim.x) out[i] = more[n - 1 - i] + fixed[i % 8];
}
"""
CHIPS = {"tu102": "sm_75", "ga102": "sm_86", "gh100": "sm_90a", "gb202": "sm_120"}


@functools.cache
def turns(arch: str) -> Binary:
    return cubin.load(nvrtc.compile_object(SOURCE, arch, frozenset()), "turns", arch)


@pytest.mark.parametrize("chip", CHIPS)
def test_shared_memory_is_added_at_launch(chip: str) -> None:
    first = 100 + np.arange(8, dtype=np.uint32)
    with device_on(chip, vram_bytes=1 << 32) as (device, board):
        program = device.load(turns(CHIPS[chip]))
        for number, recorded in ((1, False), (700, True), (8000, False)):
            out = put(device, np.zeros(number, np.uint32))
            queued = device.compute_queue()
            args = [out, number]
            queued.exec(program, args, (1, 1, 1), (64, 1, 1), shared_bytes=4 * number)
            if recorded:
                with closing(queued.bind()) as graph:
                    graph.replay()
                    device.synchronize(10.0)
            queued.submit()
            device.synchronize(10.0)
            at = np.arange(number, dtype=np.uint32)
            wanted = 3 * (number - 1 - at) + first[at % 8]
            np.testing.assert_array_equal(get(device, out), wanted.astype(np.int32), f"{number}")
        check(not board.violations, f"{board.violations}")
        queued = device.compute_queue()
        most = device.limits.shared_bytes
        for bad in (-1, 1.5, most - 31, 1 << 40):
            with pytest.raises(BadArgument, match="shared memory"):
                queued.exec(program, [out, 1], shared_bytes=bad)


def test_a_copy_queue_runs_no_kernel() -> None:
    with device_on("ga102") as (device, _):
        program = device.load(turns("sm_86"))
        with pytest.raises(Unsupported, match="only copies"):
            device.copy_queue().exec(program, [], shared_bytes=4)
