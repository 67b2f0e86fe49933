"""Tensor programs on boards beside ga102: code of their own architecture gives numpy's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor as xp
from boards.nv.machine import open_nv_board
from drivers.world.foreign import ForeignWorld
from tensor import engine
from tests.boards.test_nv_tensors import CASES
from tests.nv_cubins import needs_nvrtc
from tests.support import check

pytestmark = needs_nvrtc
CHIPS = ("tu102", "ad102", "gh100", "gb202")
SOME = ("tanh", "mean", "where", "cumulative sum", "sort", "remainder of longs",
        "exp of doubles", "quotient of doubles")  # fmt: skip
_RNG = np.random.default_rng(5)
A, B = (_RNG.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 128), (128, 64)))


def _computed(chip: str, function: Any, args: tuple[Any, ...]) -> Any:
    board: Any = open_nv_board(chip)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEV", "NV")
        with engine.on_machine(ForeignWorld(board)):
            got = function(xp, *map(xp.asarray, args)).numpy()
    check(not board.hardware.violations, str(board.hardware.violations[:3]))
    return got


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("chip", CHIPS)
def test_a_program_is_numpys(chip: str, name: str) -> None:
    function, args, tolerance = CASES[name]
    got = _computed(chip, function, args)
    np.testing.assert_allclose(got, function(np, *args), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("chip", CHIPS)
def test_a_product_of_halves_is_numpys(chip: str) -> None:
    """By HMMA; since Ampere with LDGSTS and LDSM."""
    got = _computed(chip, lambda m, a, b: a @ b, (A, B))
    np.testing.assert_array_equal(got, A @ B)
