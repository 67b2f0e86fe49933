"""Kernels of nvrtc on the executor against numpy, without one violation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.boards.nv_warp_harness import compiled, run
from tests.boards.nv_warp_kernels import CASES, Case
from tests.nv_cubins import needs_nvrtc
from tests.support import check

pytestmark = needs_nvrtc


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_kernel_leaves_what_numpy_says(case: Case) -> None:
    with np.errstate(all="ignore"):
        expected = case.expected(*case.args[1:])
    buffers, found = run(compiled(case.source), case.args, case.grid, case.block)
    check(not found, str(found[:5]))
    got = buffers[0]
    if case.ulps:
        error = np.abs(got.astype("f8") - expected) / np.spacing(np.abs(expected))
        check(float(error.max()) <= case.ulps, f"{error.max()} ulps")
    else:
        np.testing.assert_array_equal(got, expected)
