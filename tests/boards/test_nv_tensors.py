"""Tensor programs on board ga102, through the driver and nvrtc: numpy's results, no violation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as xp
from boards.nv.machine import open_nv_board
from drivers.world.foreign import ForeignWorld
from tensor import engine
from tests.nv_cubins import needs_nvrtc
from tests.support import check

pytestmark = needs_nvrtc
_RNG = np.random.default_rng(0)
F, G = (_RNG.random((64, 100), dtype=np.float32) for _ in range(2))
K = _RNG.integers(-50, 50, (40, 33), dtype=np.int32)
J = _RNG.integers(1, 9, (40, 33), dtype=np.int32)
D = F.astype(np.float64)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], float]] = {
    "exp": (lambda m, a: m.exp(a), (F,), 1e-6),
    "tanh": (lambda m, a: m.tanh(a), (F,), 1e-6),
    "sin": (lambda m, a: m.sin(a), (F * 9,), 1e-6),
    "mean": (lambda m, a: m.mean(a, axis=0), (F,), 1e-5),
    "max": (lambda m, a: m.max(a, axis=1), (F,), 0),
    "where": (lambda m, a, b: m.where(a > b, a, b), (F, G), 0),
    "cumulative sum": (lambda m, a: m.cumulative_sum(a, axis=1), (F,), 1e-5),
    "sort": (lambda m, a: m.sort(a, axis=1), (F,), 0),
    "floor division": (lambda m, a, b: a // b, (K, J), 0),
    "remainder of longs": (lambda m, a, b: a % b, (K.astype("i8") * 10**10, J.astype("i8")), 0),
    "exp of doubles": (lambda m, a: m.exp(a), (D,), 1e-14),
    "quotient of doubles": (lambda m, a, b: a / b, (D, D[::-1]), 0),
    "root of doubles": (lambda m, a: m.sqrt(a), (D,), 0),
}


@pytest.mark.parametrize("name", CASES)
def test_a_program_is_numpys(name: str) -> None:
    function, args, tolerance = CASES[name]
    board: Any = open_nv_board("ga102")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEV", "NV")
        with engine.on_machine(ForeignWorld(board)):
            got = function(xp, *map(xp.asarray, args)).numpy()
    np.testing.assert_allclose(got, function(np, *args), rtol=tolerance, atol=tolerance)
    check(not board.hardware.violations, str(board.hardware.violations[:3]))
