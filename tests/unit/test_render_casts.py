"""Casts and bitcasts between all dtypes against numpy: scalar and vector, both renderers."""

from __future__ import annotations

import numpy as np
import pytest

from compilers import dtype as dt
from compilers.dtype import DType
from tests.unit.kernel_harness import (
    HOST,
    RENDERERS,
    VECTOR,
    Call,
    apply_all,
    by_all,
    storage,
    to_bfloat16,
)
from tests.unit.test_render_ops import (
    check_calls,
    float_values,
    int_values,
    opened,
    same,
    stored,
)

LANES = (1, VECTOR)
NO_HALF = frozenset(HOST - {name for name in HOST if name.startswith("avx512") or name == "f16c"})


def values(dtype: DType) -> np.ndarray:
    if dtype is dt.bool_:
        return np.array([False, True])
    if dtype.kind == "f":
        extra = np.array(
            [
                254.6,
                -129.0,
                32768.0,
                -32769.0,
                65536.0,
                4294967296.0,
                2.0**63,
                -(2.0**63),
                2.0**64,
                65519.0,
                65520.0,
                1e-7,
                5.96e-8,
                2.98e-8,
            ]
        )
        return stored(np.concatenate([float_values(dtype), extra, -extra]), dtype)
    return int_values(dtype)


def saturated(source: np.ndarray, target: DType) -> np.ndarray:
    """float to integer by exact Python arithmetic."""
    low, high = dt.limits(target)
    wanted = []
    for x in source.astype(np.float64):
        if np.isnan(x):
            wanted.append(0)
        else:
            wanted.append(
                high if x == np.inf else low if x == -np.inf else min(max(int(x), low), high)
            )
    return np.array(wanted, target.name)


def expected(source: np.ndarray, source_dtype: DType, target: DType) -> np.ndarray:
    source = opened(source, source_dtype)
    if source_dtype.kind == "f" and target.kind in "iu":
        return saturated(source, target)
    with np.errstate(all="ignore"):
        if target is not dt.bfloat16:
            return source.astype(target.name)
        if source_dtype is not dt.float64:
            return to_bfloat16(source.astype(np.float32))
        return np.array([_double_to_bfloat16(x) for x in source], np.uint16)


def _double_to_bfloat16(x: float) -> int:
    """The nearest of the neighbours of the truncated value; ties to even."""
    if np.isnan(x):
        return 0x7FC0
    near = int(to_bfloat16(np.array([x], np.float32))[0])
    below, above = max(near & 0x7FFF, 1) - 1, min((near & 0x7FFF) + 1, 0x7F80)
    found = min(
        (below, near & 0x7FFF, above),
        key=lambda word: (abs(_magnitude(word) - min(abs(float(x)), _magnitude(0x7F80))), word & 1),
    )
    return (near & 0x8000) | found


def _magnitude(word: int) -> float:
    """A positive bfloat16; infinity stands where the next finite value would."""
    if word == 0x7F80:
        return 2.0**128
    return float(np.array([word << 16], np.uint32).view(np.float32)[0])


@pytest.mark.parametrize("source", dt.ALL, ids=lambda d: d.name)
def test_cast(source: DType) -> None:
    a = values(source)
    calls = [Call("cast", target, [a], [source], lanes) for target in dt.ALL for lanes in LANES]
    check_calls(calls, [expected(a, source, call.out) for call in calls])


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("features", [HOST, NO_HALF], ids=["host", "no-f16c"])
def test_every_half_survives_float32(features: frozenset[str], renderer: str) -> None:
    halves = (dt.float16, dt.bfloat16)
    words = [np.arange(1 << 16, dtype=np.uint16).view(storage(dtype)) for dtype in halves]
    pairs = list(zip(words, halves, strict=True))
    opening = [Call("cast", dt.float32, [a], [dtype]) for a, dtype in pairs]
    wide = apply_all(opening, renderer, features)
    closing = [Call("cast", d, [w], [dt.float32]) for w, d in zip(wide, halves, strict=True)]
    back = apply_all(closing, renderer, features)
    for (a, dtype), opened_a, closed_a in zip(pairs, wide, back, strict=True):
        same(opened_a, opened(a, dtype).astype(np.float32), dt.float32, [a], dtype.name)
        same(closed_a, a, dtype, [a], dtype.name)


@pytest.mark.parametrize("features", [HOST, NO_HALF], ids=["host", "no-f16c"])
def test_rounding_to_half(features: frozenset[str]) -> None:
    random = np.random.default_rng(7)
    a = random.integers(0, 1 << 32, 1 << 16, np.uint32).view(np.float32)
    a[: 1 << 15] = random.normal(size=1 << 15).astype(np.float32)
    a[: 1 << 14] *= np.float32(2.0**-20)
    with np.errstate(all="ignore"):
        double = a.astype(np.float64) * (1 + 2.0**-40)
        wanted = [a.astype(np.float16), double.astype(np.float16), to_bfloat16(a)]
    calls = [
        Call("cast", dt.float16, [a], [dt.float32]),
        Call("cast", dt.float16, [double], [dt.float64]),
        Call("cast", dt.bfloat16, [a], [dt.float32]),
    ]
    check_calls(calls, wanted, features)


@pytest.mark.parametrize("dtype", [dt.int8, dt.uint8])
def test_every_byte_as_a_bfloat16(dtype: DType) -> None:
    """Eight bits of an integer are the eight of a bfloat16's fraction."""
    a = np.arange(256, dtype=np.uint8).view(dtype.storage)
    calls = [Call("cast", dt.bfloat16, [a], [dtype])]
    check_calls(calls, [to_bfloat16(a.astype(np.float32))], HOST)


def test_bitcast() -> None:
    groups = (
        (dt.float16, dt.bfloat16, dt.uint16, dt.int16),
        (dt.float32, dt.uint32, dt.int32),
        (dt.float64, dt.uint64, dt.int64),
        (dt.uint8, dt.int8),
    )
    random = np.random.default_rng(3)
    calls = []
    for group in groups:
        for source in group:
            a = random.integers(0, 256, 32 * source.itemsize, np.uint8).view(storage(source))
            calls += [Call("bitcast", d, [a], [source], n) for d in group for n in LANES]
    for results in by_all(lambda renderer: apply_all(calls, renderer)).values():
        for call, got in zip(calls, results, strict=True):
            np.testing.assert_array_equal(got.view(np.uint8), call.arrays[0].view(np.uint8))


def test_every_bfloat16_in_arithmetic() -> None:
    """All 65,536 patterns, every NaN among them, beside others: NaN stays NaN, the rest is rounded
    from float32 once. What rounds an operation's result looks for no NaN."""
    a = np.arange(1 << 16, dtype=np.uint16)
    b = np.random.default_rng(5).permutation(a)
    calls = [Call(name, dt.bfloat16, [a, b], [dt.bfloat16] * 2) for name in ("add", "sub", "mul")]
    calls += [
        Call("div", dt.bfloat16, [a, b], [dt.bfloat16] * 2),
        Call("sqrt", dt.bfloat16, [a], [dt.bfloat16]),
    ]
    x, y = opened(a, dt.bfloat16), opened(b, dt.bfloat16)
    with np.errstate(all="ignore"):
        wanted = [x + y, x - y, x * y, x / y, np.sqrt(x)]
    check_calls(calls, [to_bfloat16(found) for found in wanted])
