"""Arithmetic of bfloat16 on the machine-code executor: every pattern, every NaN, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from boards.amd.wave.types import Strict
from compilers import dtype as dt
from compilers import graph
from tests.boards.kernel_runner import TARGETS, compute
from tests.support import check
from tests.unit.kernel_harness import from_bfloat16, to_bfloat16

NAN = 0x7FC0


def canonical(words: np.ndarray) -> np.ndarray:
    """bfloat16 patterns in which every NaN is the same one."""
    return np.where((words & 0x7FFF) > 0x7F80, np.uint16(NAN), words)


@pytest.mark.parametrize("arch", TARGETS)
def test_every_pattern_beside_another(arch: str) -> None:
    """Denormals are kept, infinities stay, NaN stays NaN, all else is float32's rounded once."""
    a = np.arange(1 << 16, dtype=np.uint16)
    b = np.random.default_rng(5).permutation(a)
    left, right = (graph.buffer(words, dt.bfloat16, words.shape) for words in (a, b))
    roots = [graph.binary(name, left, right) for name in ("add", "sub", "mul")]
    ran = compute(roots, arch, strict=Strict())
    check(not ran.violations, f"{[str(violation) for violation in ran.violations[:3]]}")
    x, y = from_bfloat16(a), from_bfloat16(b)
    with np.errstate(all="ignore"):
        wanted = [x + y, x - y, x * y]
    for got, want in zip(ran.arrays, wanted, strict=True):
        np.testing.assert_array_equal(canonical(got), to_bfloat16(want))


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("dtype", [dt.int8, dt.uint8])
def test_a_byte_by_every_scale(dtype: dt.DType, arch: str) -> None:
    """As weights are scaled: the byte is exact in float32, and the product is rounded once."""
    q = np.resize(np.arange(256, dtype=np.uint8), 1 << 16).view(dtype.storage)
    scale = np.random.default_rng(6).permutation(1 << 16).astype(np.uint16)
    bytes_, scales = graph.buffer(q, dtype, q.shape), graph.buffer(scale, dt.bfloat16, q.shape)
    ran = compute([graph.binary("mul", graph.cast(bytes_, dt.bfloat16), scales)], arch)
    with np.errstate(all="ignore"):
        want = to_bfloat16(q.astype(np.float32) * from_bfloat16(scale))
    np.testing.assert_array_equal(canonical(ran.arrays[0]), want)
