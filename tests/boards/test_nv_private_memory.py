"""Private memory of compiled kernels: frames begin below the stack pointer that the driver has."""

from __future__ import annotations

import numpy as np
import pytest

from compilers.toolchains import compile_source
from tests.boards.driver_harness import get, put
from tests.nv_boards import CHIPS, nv_board
from tests.support import check

N, KEPT = 64, 24
SOURCE = f"""
extern "C" __global__ void __launch_bounds__({N}) k(int *out, const int *in, const int *order) {{
  int kept[{KEPT}];
  #pragma unroll 1
  for (int i = 0; i < {KEPT}; i++) kept[order[i]] = in[threadIdx.x] + i;
  out[threadIdx.x] = kept[order[threadIdx.x % {KEPT}]] * 100 + kept[0];
}}
"""


@pytest.mark.parametrize("chip", CHIPS)
def test_a_frame_is_each_lanes_own(chip: str) -> None:
    with nv_board(chip, "NVRTC") as device:
        binary = compile_source(SOURCE, "k", "NVRTC", device.arch, frozenset()).in_blocks_of(N)
        program = device.load(binary)
        check(program.kernel.lane_bytes > 4 * KEPT, f"{program.kernel.lane_bytes} bytes of a lane")
        order = np.random.default_rng(5).permutation(N).astype(np.int32) % KEPT
        order[:KEPT] = np.random.default_rng(6).permutation(KEPT)
        values = np.arange(N, dtype=np.int32) * 7
        out, given, places = (
            put(device, array) for array in (np.zeros(N, np.int32), values, order)
        )
        device.launch(program, [out, given, places], 1)
        kept = np.zeros((N, KEPT), np.int32)
        for i in range(KEPT):
            kept[:, order[i]] = values + i
        lanes = np.arange(N)
        wanted = kept[lanes, order[lanes % KEPT]] * 100 + kept[:, 0]
        np.testing.assert_array_equal(get(device, out, "int32"), wanted)
