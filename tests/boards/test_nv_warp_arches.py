"""The kernels of sm_86, compiled for the other architectures: numpy's results, no violation."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.boards.nv_warp_harness import compiled, run
from tests.boards.nv_warp_kernels import CASES, Case
from tests.boards.test_nv_warp_random import LANES, expected_of, kernel_of
from tests.nv_cubins import needs_nvrtc
from tests.support import check

pytestmark = needs_nvrtc
ARCHES = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_100", "sm_120")
RANDOM = 25


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("arch", ARCHES)
def test_a_kernel_leaves_what_numpy_says(arch: str, case: Case) -> None:
    with np.errstate(all="ignore"):
        expected = case.expected(*case.args[1:])
    buffers, found = run(compiled(case.source, arch), case.args, case.grid, case.block)
    check(not found, str(found[:5]))
    got = buffers[0]
    if case.ulps:
        error = np.abs(got.astype("f8") - expected) / np.spacing(np.abs(expected))
        check(float(error.max()) <= case.ulps, f"{error.max()} ulps")
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("arch", ARCHES)
def test_random_kernels(arch: str) -> None:
    rng = random.Random(arch)
    for number in range(RANDOM):
        source, parts = kernel_of(rng)
        a, b = (np.array([rng.getrandbits(32) for _ in range(LANES)], np.uint32) for _ in range(2))
        out = np.zeros(LANES, np.uint32)
        buffers, found = run(compiled(source, arch), (out, a, b), (1, 1, 1), (LANES, 1, 1))
        check(not found, f"{number}: {found[:3]} {source}")
        np.testing.assert_array_equal(buffers[0], expected_of(parts, a, b), err_msg=source)
