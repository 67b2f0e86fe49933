"""Atomics, barriers, copies and calls of nvrtc on the executor, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.boards.nv_warp_harness import compiled, run
from tests.boards.nv_warp_kernels import Case
from tests.boards.nv_warp_lanes import LANE_CASES
from tests.nv_cubins import needs_nvrtc
from tests.support import check

pytestmark = needs_nvrtc


@pytest.mark.parametrize("case", LANE_CASES, ids=lambda case: case.name)
def test_a_kernel_leaves_what_numpy_says(case: Case) -> None:
    expected = case.expected(*case.args[1:])
    buffers, found = run(compiled(case.source), case.args, case.grid, case.block)
    np.testing.assert_array_equal(buffers[0], expected)
    check(not found, str(found[:5]))
