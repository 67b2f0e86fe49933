"""Casts and bitcasts between all dtypes against numpy: scalar and vector, both renderers."""

from __future__ import annotations

import numpy as np
import pytest

from compilers import dtype as dt
from compilers.dtype import DType
from tests.unit.kernel_harness import HOST, RENDERERS, VECTOR, apply, storage, to_bfloat16
from tests.unit.test_render_ops import float_values, int_values, opened, same, stored

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


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("source", dt.ALL, ids=lambda d: d.name)
def test_cast(source: DType, lanes: int, renderer: str) -> None:
    a = values(source)
    for target in dt.ALL:
        got = apply("cast", target, [a], [source], renderer, lanes)
        same(got, expected(a, source, target), target, [opened(a, source)], target.name)


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("features", [HOST, NO_HALF], ids=["host", "no-f16c"])
@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16], ids=lambda d: d.name)
def test_every_half_survives_float32(dtype: DType, features: frozenset[str], renderer: str) -> None:
    a = np.arange(1 << 16, dtype=np.uint16).view(storage(dtype))
    wide = apply("cast", dt.float32, [a], [dtype], renderer, features=features)
    same(wide, opened(a, dtype).astype(np.float32), dt.float32, [a])
    same(apply("cast", dtype, [wide], [dt.float32], renderer, features=features), a, dtype, [a])


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("features", [HOST, NO_HALF], ids=["host", "no-f16c"])
@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16], ids=lambda d: d.name)
def test_rounding_to_half(dtype: DType, features: frozenset[str], renderer: str) -> None:
    random = np.random.default_rng(7)
    a = random.integers(0, 1 << 32, 1 << 16, np.uint32).view(np.float32)
    a[: 1 << 15] = random.normal(size=1 << 15).astype(np.float32)
    a[: 1 << 14] *= np.float32(2.0**-20)
    with np.errstate(all="ignore"):
        wanted = to_bfloat16(a) if dtype is dt.bfloat16 else a.astype(np.float16)
    same(apply("cast", dtype, [a], [dt.float32], renderer, features=features), wanted, dtype, [a])
    if dtype is dt.float16:
        double = a.astype(np.float64) * (1 + 2.0**-40)
        with np.errstate(all="ignore"):
            wanted = double.astype(np.float16)
        got = apply("cast", dtype, [double], [dt.float64], renderer, features=features)
        same(got, wanted, dtype, [double])


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("lanes", LANES)
def test_bitcast(lanes: int, renderer: str) -> None:
    groups = (
        (dt.float16, dt.bfloat16, dt.uint16, dt.int16),
        (dt.float32, dt.uint32, dt.int32),
        (dt.float64, dt.uint64, dt.int64),
        (dt.uint8, dt.int8),
    )
    random = np.random.default_rng(3)
    for group in groups:
        for source in group:
            a = random.integers(0, 256, 32 * source.itemsize, np.uint8).view(storage(source))
            for target in group:
                got = apply("bitcast", target, [a], [source], renderer, lanes)
                np.testing.assert_array_equal(got.view(np.uint8), a.view(np.uint8))
