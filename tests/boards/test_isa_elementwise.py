"""Compiled elementwise kernels on the executor against numpy and Python integers."""

from __future__ import annotations

import numpy as np
import pytest

from boards.amd.isa.families import FAMILIES
from tests.boards.isa_kernels import CASES, DTYPES, GROUP, Case, module, operands
from tests.boards.wave_harness import CHIPS, launch
from tests.support import check

_COUNT, _SHORT_COUNT = 20_480, 2_048
_WHOLE_REGISTERS = "-real-true16"
_WAVE64 = "-wavefrontsize32,+wavefrontsize64"
_SHORT = frozenset({"half", "i16", "i8"})
_VARIANTS = [
    *[("gfx1100", case, "") for case in CASES],
    *[("gfx1100", c, _WHOLE_REGISTERS) for c in CASES if _SHORT & {*c.types, c.result}],
    *[
        ("gfx1100", c, _WAVE64)
        for c in CASES
        if c.name.startswith(("fdiv", "sdiv", "uadd", "icmp", "fma"))
    ],
    *[(cpu, case, "") for cpu in CHIPS[1:] for case in CASES],
]


@pytest.mark.parametrize(
    ("cpu", "case", "features"), _VARIANTS, ids=lambda v: getattr(v, "name", v)
)
def test_a_compiled_operation_gives_what_numpy_gives(cpu: str, case: Case, features: str) -> None:
    count = _COUNT if cpu == CHIPS[0] else _SHORT_COUNT
    arrays = operands(case, count, seed=len(case.name))
    out = np.zeros(count, DTYPES[case.result])
    groups, lanes = (count // GROUP, 1, 1), FAMILIES[cpu].lane_counts[0]
    report = launch(module(case), [*arrays, out], groups, (GROUP, 1, 1), features=features, cpu=cpu)
    waves = count // (64 if features == _WAVE64 else lanes)
    check(report.waves == waves, f"{report.waves} waves, not {waves}")
    with np.errstate(all="ignore"):
        expected = case.expected(*arrays)
    check(not report.violations, "\n".join(map(str, report.violations)))
    if case.data == "angle":
        # The hardware multiplies by 1/(2 pi) in the operand's precision before its table.
        np.testing.assert_allclose(out, expected, rtol=0, atol=4 * np.finfo(out.dtype).eps)
    elif case.ulps:
        np.testing.assert_array_max_ulp(out, expected, maxulp=case.ulps)
    elif out.dtype.kind == "f":
        np.testing.assert_array_equal(out, expected)
        same_sign = np.signbit(out) == np.signbit(expected)
        check((same_sign | np.isnan(expected)).all(), "the sign of a zero differs")
    else:
        np.testing.assert_array_equal(out, expected)
