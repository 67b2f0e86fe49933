"""The bfloat16 pair product: the instruction, and the arithmetic where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from compilers import dtype as dt
from tests.unit.kernel_harness import HOST, RENDERERS, Call, apply_all, from_bfloat16, to_bfloat16

PLAIN = HOST - {"avx512bf16"}


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("features", [HOST, PLAIN], ids=["host", "plain"])
def test_dot2(features: frozenset[str], renderer: str) -> None:
    random = np.random.default_rng(4)
    a, b = (to_bfloat16(random.normal(size=128).astype(np.float32)) for _ in range(2))
    c = random.normal(size=64).astype(np.float32)
    products = (from_bfloat16(a).astype(np.float64) * from_bfloat16(b)).reshape(-1, 2)
    arrays = [a.view(np.uint32), b.view(np.uint32), c]
    sources = [dt.uint32, dt.uint32, dt.float32]
    calls = [Call("dot2", dt.float32, arrays, sources, lanes) for lanes in (1, 4, 8, 16)]
    for got in apply_all(calls, renderer, features):
        np.testing.assert_allclose(got, c + products.sum(1), rtol=0, atol=2e-6)
