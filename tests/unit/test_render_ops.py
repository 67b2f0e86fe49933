"""Every op and dtype against numpy: scalar and vector loops, both renderers."""

from __future__ import annotations

import numpy as np
import pytest

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.graph import COMPARE
from tests.unit.kernel_harness import (
    RENDERERS,
    VECTOR,
    apply,
    float_bits,
    from_bfloat16,
    storage,
    to_bfloat16,
)

INTEGERS = [d for d in dt.ALL if d.kind in "ui"]
FLOATS = [d for d in dt.ALL if d.kind == "f"]
LANES = (1, VECTOR)
NUMPY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "lt": np.less,
    "le": np.less_equal, "eq": np.equal, "ne": np.not_equal, "max": np.maximum,
    "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "neg": np.negative, "abs": np.abs, "invert": np.invert, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "rint": np.rint, "sqrt": np.sqrt, "floordiv": np.floor_divide,
    "mod": np.remainder, "copysign": np.copysign, "nextafter": np.nextafter, "fmod": np.fmod,
    "shl": np.left_shift, "shr": np.right_shift,
}  # fmt: skip
INT_BINARY = ("add", "sub", "mul", "max", "min", "and", "or", "xor", "lt", "le", "eq", "ne",
              "floordiv", "mod", "shl", "shr")  # fmt: skip
FLOAT_BINARY = ("add", "sub", "mul", "div", "max", "min", "lt", "le", "eq", "ne", "floordiv",
                "mod", "copysign", "nextafter", "fmod")  # fmt: skip


def int_values(dtype: DType) -> np.ndarray:
    info = np.iinfo(dtype.name)
    middle = [0, 1, 2, 3, 5, 7, 8, 31, 63, 64, 100, dtype.bits - 1, dtype.bits]
    values = [info.min, info.min + 1, info.max, info.max - 1, *middle]
    if dtype.kind == "i":
        values += [-v for v in middle]
    return np.array(values, dtype.name)


def float_values(dtype: DType) -> np.ndarray:
    """float32 values, each exact in `dtype` (float64 gets its own extremes as well)."""
    tiny = {"float16": 2.0**-24, "bfloat16": 2.0**-133}.get(dtype.name, 2.0**-149)
    big = {"float16": 65504.0, "bfloat16": 2.0**127 * 1.9921875}.get(
        dtype.name, float(np.finfo(np.float32).max)
    )
    base = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.0, 100.0, 0.25, tiny, tiny * 3, big, big / 2,
            float("inf"), float("nan")]  # fmt: skip
    values = np.array(base + [-v for v in base], np.float64)
    if dtype is dt.float64:
        return np.append(values, [5e-324, -5e-324, 1.7976931348623157e308, 2.0**60 + 512])
    return values


def pairs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.meshgrid(values, values)
    return a.ravel().copy(), b.ravel().copy()


def stored(values: np.ndarray, dtype: DType) -> np.ndarray:
    with np.errstate(all="ignore"):
        if dtype is dt.bfloat16:
            return to_bfloat16(values.astype(np.float32))
        return values.astype(storage(dtype))


def opened(array: np.ndarray, dtype: DType) -> np.ndarray:
    """What numpy computes with: bfloat16 has no numpy dtype, float32 stands in."""
    return from_bfloat16(array) if dtype is dt.bfloat16 else array


def same(
    got: np.ndarray, wanted: np.ndarray, dtype: DType, inputs: list[np.ndarray], name: str = ""
) -> None:
    a, b = float_bits(got, dtype), float_bits(wanted, dtype)
    bad = np.flatnonzero(a != b)
    if bad.size:
        at = bad[0]
        raise AssertionError(
            f"{name}: {bad.size} differ, first for {[i[at] for i in inputs]}: "
            f"{got[at]!r} instead of {wanted[at]!r}"
        )


def int_expected(op: str, dtype: DType, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        wanted = NUMPY[op](a, b)
    if op in {"floordiv", "mod"}:
        wanted[b == 0] = 0
    return wanted


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
def test_integer_binary(dtype: DType, lanes: int, renderer: str) -> None:
    a, b = pairs(int_values(dtype))
    for op in INT_BINARY:
        out = dt.bool_ if op in COMPARE else dtype
        got = apply(op, out, [a, b], [dtype, dtype], renderer, lanes)
        same(got, int_expected(op, dtype, a, b), out, [a, b], op)


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
def test_integer_unary(dtype: DType, lanes: int, renderer: str) -> None:
    a = int_values(dtype)
    for op in ("neg", "abs", "invert", "floor", "rint"):
        got = apply(op, dtype, [a], [dtype], renderer, lanes)
        wanted = a if op in {"floor", "rint"} else NUMPY[op](a)
        same(got, wanted, dtype, [a], op)


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", [dt.uint8, dt.int32, dt.int64], ids=lambda d: d.name)
def test_integer_power(dtype: DType, lanes: int, renderer: str) -> None:
    a, b = pairs(int_values(dtype))
    got = apply("pow", dtype, [a, b], [dtype, dtype], renderer, lanes)
    wanted = np.array(
        [_int_power(int(x), int(y), dtype) for x, y in zip(a, b, strict=True)], np.uint64
    ).astype(dtype.name)
    same(got, wanted, dtype, [a, b])


def _int_power(x: int, y: int, dtype: DType) -> int:
    if y >= 0:
        return pow(x, y, 1 << dtype.bits)
    found = {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)
    return found % (1 << 64)


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_float_binary(dtype: DType, lanes: int, renderer: str) -> None:
    a, b = (stored(x, dtype) for x in pairs(float_values(dtype)))
    for op in FLOAT_BINARY:
        if op == "nextafter" and dtype is dt.bfloat16:
            continue  # numpy has none; test_bfloat16_neighbours
        out = dt.bool_ if op in COMPARE else dtype
        with np.errstate(all="ignore"):
            wanted = NUMPY[op](opened(a, dtype), opened(b, dtype))
        if dtype is dt.bfloat16 and out is dtype:
            wanted = to_bfloat16(wanted)
        if op == "nextafter" and dtype is dt.float16:
            wanted = np.where(a == b, b, wanted)  # numpy keeps -0 here; C and the standard do not
        same(
            apply(op, out, [a, b], [dtype, dtype], renderer, lanes),
            wanted,
            out,
            [opened(a, dtype), opened(b, dtype)],
            op,
        )


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_float_unary(dtype: DType, lanes: int, renderer: str) -> None:
    a = stored(float_values(dtype), dtype)
    for op in ("neg", "abs", "sqrt", "floor", "ceil", "trunc", "rint"):
        with np.errstate(all="ignore"):
            wanted = NUMPY[op](opened(a, dtype))
        if dtype is dt.bfloat16:
            wanted = to_bfloat16(wanted)
        same(apply(op, dtype, [a], [dtype], renderer, lanes), wanted, dtype, [a], op)


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("lanes", LANES)
def test_bool_ops(lanes: int, renderer: str) -> None:
    a, b = pairs(np.array([False, True]))
    for op in ("and", "or", "xor", "add", "mul", "max", "min", "lt", "le", "eq", "ne"):
        got = apply(op, dt.bool_, [a, b], [dt.bool_, dt.bool_], renderer, lanes)
        np.testing.assert_array_equal(got, NUMPY[op](a, b), op)
    np.testing.assert_array_equal(apply("invert", dt.bool_, [a], [dt.bool_], renderer, lanes), ~a)


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("lanes", LANES)
def test_bfloat16_neighbours(lanes: int, renderer: str) -> None:
    a = np.array([0x0000, 0x8000, 0x3F80, 0x3F80, 0xBF80, 0x7F7F, 0x0001, 0x7FC0], np.uint16)
    b = np.array([0x3F80, 0x3F80, 0x4000, 0x0000, 0x0000, 0x7F80, 0x0000, 0x3F80], np.uint16)
    wanted = np.array([0x0001, 0x0001, 0x3F81, 0x3F7F, 0xBF7F, 0x7F80, 0x0000, 0x7FC0], np.uint16)
    got = apply("nextafter", dt.bfloat16, [a, b], [dt.bfloat16] * 2, renderer, lanes)
    same(got, wanted, dt.bfloat16, [a, b])


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=lambda d: d.name)
def test_fma_rounds_once(dtype: DType, lanes: int, renderer: str) -> None:
    epsilon = np.finfo(dtype.name).eps
    a = np.array([1 + epsilon, 3.0, np.inf, 0.0], dtype.name)
    b = np.array([1 - epsilon, 4.0, 0.0, -1.0], dtype.name)
    c = np.array([-1.0, 5.0, 1.0, 0.0], dtype.name)
    wanted = np.array([-(float(epsilon) ** 2), 17.0, np.nan, 0.0], dtype.name)
    same(apply("fma", dtype, [a, b, c], [dtype] * 3, renderer, lanes), wanted, dtype, [a, b, c])


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", dt.ALL, ids=lambda d: d.name)
def test_where(dtype: DType, lanes: int, renderer: str) -> None:
    count = 32
    chosen = np.arange(count) % 3 == 0
    if dtype is dt.bool_:
        a, b = np.arange(count) % 2 == 0, np.arange(count) % 5 == 0
    else:
        a, b = (np.arange(n, n + count).astype(storage(dtype)) for n in (1, 50))
    got = apply("where", dtype, [chosen, a, b], [dt.bool_, dtype, dtype], renderer, lanes)
    np.testing.assert_array_equal(got, np.where(chosen, a, b))
