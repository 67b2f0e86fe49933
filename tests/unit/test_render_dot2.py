"""The bfloat16 pair product: the instruction, and the arithmetic where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from compilers import dtype as dt
from tests.unit.kernel_harness import HOST, RENDERERS, apply, from_bfloat16, to_bfloat16

PLAIN = HOST - {"avx512bf16"}


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
@pytest.mark.parametrize("features", [HOST, PLAIN], ids=["host", "plain"])
def test_dot2(features: frozenset[str], lanes: int, renderer: str) -> None:
    random = np.random.default_rng(4)
    a, b = (to_bfloat16(random.normal(size=128).astype(np.float32)) for _ in range(2))
    c = random.normal(size=64).astype(np.float32)
    products = (from_bfloat16(a).astype(np.float64) * from_bfloat16(b)).reshape(-1, 2)
    wanted = c + products.sum(1)
    sources = [dt.uint32, dt.uint32, dt.float32]
    got = apply(
        "dot2",
        dt.float32,
        [a.view(np.uint32), b.view(np.uint32), c],
        sources,
        renderer,
        lanes,
        features=features,
    )
    np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-6)
