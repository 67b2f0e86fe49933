"""Reductions in which the lanes of a wave exchange values, on the board: equal to numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from compilers import graph
from compilers.lower.choose import Target
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from compilers.qcom.render import render
from tests.boards.qcom_runner import UNITS, compute
from tests.compilers.lowering import leaf
from tests.support import check

every_chip = pytest.mark.parametrize("arch", ["a630", "a660", "a740", "x1-85"])
DTYPES = ("int8", "uint16", "int32", "int64", "uint64", "float16", "float32")
REDUCED = {"add": np.sum, "max": np.max, "min": np.min}


def rows(dtype: str, count: int, length: int) -> np.ndarray:
    """Small whole numbers, so that every sum is exact."""
    numbers = np.random.default_rng(length)
    return numbers.integers(0, 3, (count, length)).astype(dtype)


@pytest.mark.parametrize("length", [64, 1000, 5000])
@pytest.mark.parametrize("dtype", DTYPES)
@every_chip
def test_rows_are_reduced(arch: str, dtype: str, length: int) -> None:
    values = rows(dtype, 5, length)
    values[3, length // 2] = 9
    roots = [graph.reduce(op, leaf(values), (1,)) for op in REDUCED]
    for found, reduce in zip(compute(roots, arch), REDUCED.values(), strict=True):
        np.testing.assert_array_equal(found, reduce(values, axis=1).astype(dtype))


@every_chip
def test_they_do_exchange(arch: str) -> None:
    key, _ = signature([graph.reduce("add", leaf(rows("int64", 5, 5000)), (1,))])
    texts = [
        render(s.kernel, arch) for s in plan(rebuild(key).roots, Target.gpu_of(arch, UNITS)).steps
    ]
    check(any("shfl.xor" in text for text in texts), "by shared memory")
