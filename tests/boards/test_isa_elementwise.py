"""Compiled elementwise kernels on the gfx1100 executor against numpy and Python integers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.boards.isa_kernels import CASES, DTYPES, GROUP, Case, module, operands
from tests.boards.wave_harness import launch
from tests.support import check

_COUNT = 20_480


_WHOLE_REGISTERS = "-real-true16"
_WAVE64 = "-wavefrontsize32,+wavefrontsize64"
_SHORT = frozenset({"half", "i16", "i8"})
_VARIANTS = [
    *[(case, "") for case in CASES],
    *[(c, _WHOLE_REGISTERS) for c in CASES if _SHORT & {*c.types, c.result}],
    *[(c, _WAVE64) for c in CASES if c.name.startswith(("fdiv", "sdiv", "uadd", "icmp", "fma"))],
]


@pytest.mark.parametrize(("case", "features"), _VARIANTS, ids=lambda v: getattr(v, "name", v))
def test_a_compiled_operation_gives_what_numpy_gives(case: Case, features: str) -> None:
    arrays = operands(case, _COUNT, seed=len(case.name))
    out = np.zeros(_COUNT, DTYPES[case.result])
    groups = (_COUNT // GROUP, 1, 1)
    report = launch(module(case), [*arrays, out], groups, (GROUP, 1, 1), features=features)
    waves = _COUNT // (64 if features == _WAVE64 else 32)
    check(report.waves == waves, f"{report.waves} waves, not {waves}")
    with np.errstate(all="ignore"):
        expected = case.expected(*arrays)
    check(not report.findings, "\n".join(map(str, report.findings)))
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
