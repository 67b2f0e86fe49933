"""The small kernels that tests of every layer compile, executed on a chip of each family."""

from __future__ import annotations

import numpy as np
import pytest

from boards.amd.isa.families import FAMILIES
from tests import amd_kernels
from tests.boards.wave_harness import CHIPS, launch
from tests.support import check

_WAVE64 = "-wavefrontsize32,+wavefrontsize64"
_BUILDS = [
    pytest.param(cpu, _WAVE64 if lanes == 64 and 32 in FAMILIES[cpu].lane_counts else "",
                 id=f"{cpu}-{lanes}")
    for cpu in CHIPS for lanes in FAMILIES[cpu].lane_counts
]  # fmt: skip


@pytest.mark.parametrize(("cpu", "features"), _BUILDS)
def test_add_stops_at_the_end(cpu: str, features: str) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(500).astype(np.float32) for _ in range(2))
    c = np.zeros(500, np.float32)
    report = launch(amd_kernels.add(), [a, b, c, 300], (2, 1, 1), (256, 1, 1), cpu=cpu,
                    features=features)  # fmt: skip
    np.testing.assert_array_equal(c[:300], (a + b)[:300])
    check(not c[300:].any() and not report.violations, str(report.violations))


@pytest.mark.parametrize(("cpu", "features"), _BUILDS)
def test_reverse_goes_through_local_memory(cpu: str, features: str) -> None:
    a = np.arange(512, dtype=np.float32)
    c = np.zeros(512, np.float32)
    report = launch(amd_kernels.reverse(), [a, c], (2, 1, 1), (256, 1, 1), cpu=cpu,
                    features=features)  # fmt: skip
    np.testing.assert_array_equal(c.reshape(2, 256), a.reshape(2, 256)[:, ::-1])
    check(not report.violations, str(report.violations))


@pytest.mark.parametrize(("cpu", "features"), _BUILDS)
def test_constants_of_the_image_and_private_memory(cpu: str, features: str) -> None:
    one = np.zeros(1, np.uint32)
    launch(amd_kernels.table(), [one, 2], workgroup=(1, 1, 1), cpu=cpu, features=features)
    check(int(one[0]) == 7, str(one))
    c = np.zeros(64, np.uint32)
    report = launch(amd_kernels.scratch(), [c, 5], workgroup=(64, 1, 1), cpu=cpu,
                    features=features)  # fmt: skip
    np.testing.assert_array_equal(c, 25 + np.arange(64))
    check(not report.violations, str(report.violations))
