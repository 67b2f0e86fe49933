"""Equality of arrays as the standard means it: NaN equals NaN, and zeros have signs."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensor as xp
from tests.support import check

FLOATS = (xp.float16, xp.bfloat16, xp.float32, xp.float64)
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


def same(got: Any, want: Any, ulps: float = 0.0, context: str = "") -> None:
    """`got` (a tensor) has the values of `want`, to `ulps` units in the last place of its dtype."""
    array = np.asarray(got.numpy())
    expected = np.asarray(want)
    check(array.shape == expected.shape, f"{context}: shape {array.shape}, not {expected.shape}")
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(array, expected, err_msg=context)
        return
    wide = expected.astype(np.float64)
    rtol = ulps * EPS[got.dtype.name]
    np.testing.assert_allclose(
        array.astype(np.float64), wide, rtol=rtol, atol=0, equal_nan=True, err_msg=context
    )
    zeros = wide == 0
    np.testing.assert_array_equal(
        np.signbit(array[zeros]), np.signbit(wide[zeros]), err_msg=f"{context}: sign of zero"
    )
