"""FMUL with a scale, which code of tinygrad's compilers has: the words of a kernel, changed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.boards.nv_warp_harness import compiled, run
from tests.nv_cubins import needs_nvrtc

WORD, FMUL, SCALE, FIELD = 16, 0x020, 84, 0x7
SOURCE = (
    'extern "C" __global__ void f(float *o, const float *a, const float *b)'
    " { int i = threadIdx.x; o[i] = a[i] * b[i]; }"
)
FACTORS = {1: 1 / 8, 2: 1 / 4, 3: 1 / 2, 4: 1, 5: 2, 6: 4, 7: 8}
"""src: nvdisasm 13.5 prints .D8, .D4, .D2, nothing, .M2, .M4, .M8"""


@needs_nvrtc
@pytest.mark.parametrize("scale", FACTORS)
@pytest.mark.parametrize("arch", ["sm_75", "sm_86", "sm_120"])
def test_a_product_is_scaled(arch: str, scale: int) -> None:
    code, record, banks = compiled(SOURCE, arch)
    words = [int.from_bytes(code[at : at + WORD], "little") for at in range(0, len(code), WORD)]
    changed = [
        w & ~(FIELD << SCALE) | scale << SCALE if w & 0x1FF == FMUL else w for w in words
    ]  # fmt: skip
    blob = b"".join(w.to_bytes(WORD, "little") for w in changed)
    rng = np.random.default_rng(84)
    a, b = (rng.uniform(-9, 9, 64).astype(np.float32) for _ in range(2))
    (got, *_), _ = run((blob, record, banks), (np.zeros(64, np.float32), a, b), (1, 1, 1),
                       (64, 1, 1))  # fmt: skip
    wanted = (a.astype(np.float64) * b * FACTORS[scale]).astype(np.float32)
    np.testing.assert_array_equal(got, wanted)
