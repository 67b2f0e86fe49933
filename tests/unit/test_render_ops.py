"""Every op and dtype against numpy: scalar and vector loops, both renderers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.graph import COMPARE
from tests.unit.kernel_harness import (
    HOST,
    VECTOR,
    Call,
    apply_all,
    by_all,
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


def int_expected(op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        wanted = NUMPY[op](a, b)
    if op in {"floordiv", "mod"}:
        wanted[b == 0] = 0
    return wanted


def check_calls(
    calls: list[Call], wanted: list[np.ndarray], features: frozenset[str] = HOST
) -> None:
    """Every call gives the same bits as wanted, by every renderer."""
    found = by_all(lambda renderer: apply_all(calls, renderer, features))
    for renderer, results in found.items():
        for call, got, expected in zip(calls, results, wanted, strict=True):
            inputs = [opened(a, d) for a, d in zip(call.arrays, call.sources, strict=True)]
            name = f"{renderer}: {call.op} of {call.sources}, {call.lanes} lanes"
            same(got, expected, call.out, inputs, name)


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
def test_integer_binary(dtype: DType) -> None:
    a, b = pairs(int_values(dtype))
    calls = [
        Call(op, dt.bool_ if op in COMPARE else dtype, [a, b], [dtype, dtype], lanes)
        for op in INT_BINARY
        for lanes in LANES
    ]
    check_calls(calls, [int_expected(call.op, a, b) for call in calls])


def test_integer_unary() -> None:
    calls = [
        Call(op, dtype, [int_values(dtype)], [dtype], lanes)
        for op in ("neg", "abs", "invert", "floor", "rint")
        for dtype in INTEGERS
        for lanes in LANES
    ]
    wanted = [
        call.arrays[0] if call.op in {"floor", "rint"} else NUMPY[call.op](*call.arrays)
        for call in calls
    ]
    check_calls(calls, wanted)


@pytest.mark.parametrize("dtype", [dt.uint8, dt.int32, dt.int64], ids=lambda d: d.name)
def test_integer_power(dtype: DType) -> None:
    a, b = pairs(int_values(dtype))
    wanted = np.array(
        [_int_power(int(x), int(y), dtype) for x, y in zip(a, b, strict=True)], np.uint64
    ).astype(dtype.name)
    calls = [Call("pow", dtype, [a, b], [dtype, dtype], lanes) for lanes in LANES]
    check_calls(calls, [wanted] * len(calls))


def _int_power(x: int, y: int, dtype: DType) -> int:
    if y >= 0:
        return pow(x, y, 1 << dtype.bits)
    found = {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)
    return found % (1 << 64)


def float_expected(call: Call) -> np.ndarray:
    dtype = call.sources[0]
    with np.errstate(all="ignore"):
        wanted = NUMPY[call.op](*(opened(array, dtype) for array in call.arrays))
    if call.op == "nextafter" and dtype is dt.float16:
        a, b = call.arrays
        return np.where(a == b, b, wanted)  # numpy keeps -0 here; C and the standard do not
    return to_bfloat16(wanted) if call.out is dt.bfloat16 else wanted


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_float_binary(dtype: DType) -> None:
    a, b = (stored(x, dtype) for x in pairs(float_values(dtype)))
    calls = [
        Call(op, dt.bool_ if op in COMPARE else dtype, [a, b], [dtype, dtype], lanes)
        for op in FLOAT_BINARY
        for lanes in LANES
        if not (op == "nextafter" and dtype is dt.bfloat16)  # test_bfloat16_neighbours
    ]
    check_calls(calls, [float_expected(call) for call in calls])


def test_float_unary() -> None:
    calls = [
        Call(op, dtype, [stored(float_values(dtype), dtype)], [dtype], lanes)
        for op in ("neg", "abs", "sqrt", "floor", "ceil", "trunc", "rint")
        for dtype in FLOATS
        for lanes in LANES
    ]
    check_calls(calls, [float_expected(call) for call in calls])


def test_bool_ops() -> None:
    both = pairs(np.array([False, True]))
    calls = [
        Call(op, dt.bool_, both[: 1 if op == "invert" else 2], [dt.bool_] * 2, lanes)
        for op in ("and", "or", "xor", "add", "mul", "max", "min", "lt", "le", "eq", "ne", "invert")
        for lanes in LANES
    ]
    calls = [replace(call, sources=call.sources[: len(call.arrays)]) for call in calls]
    check_calls(calls, [NUMPY[call.op](*call.arrays) for call in calls])


def test_bfloat16_neighbours() -> None:
    a = np.array([0x0000, 0x8000, 0x3F80, 0x3F80, 0xBF80, 0x7F7F, 0x0001, 0x7FC0], np.uint16)
    b = np.array([0x3F80, 0x3F80, 0x4000, 0x0000, 0x0000, 0x7F80, 0x0000, 0x3F80], np.uint16)
    wanted = np.array([0x0001, 0x0001, 0x3F81, 0x3F7F, 0xBF7F, 0x7F80, 0x0000, 0x7FC0], np.uint16)
    calls = [Call("nextafter", dt.bfloat16, [a, b], [dt.bfloat16] * 2, lanes) for lanes in LANES]
    check_calls(calls, [wanted] * len(calls))


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=lambda d: d.name)
def test_fma_rounds_once(dtype: DType) -> None:
    epsilon = np.finfo(dtype.name).eps
    a = np.array([1 + epsilon, 3.0, np.inf, 0.0], dtype.name)
    b = np.array([1 - epsilon, 4.0, 0.0, -1.0], dtype.name)
    c = np.array([-1.0, 5.0, 1.0, 0.0], dtype.name)
    wanted = np.array([-(float(epsilon) ** 2), 17.0, np.nan, 0.0], dtype.name)
    calls = [Call("fma", dtype, [a, b, c], [dtype] * 3, lanes) for lanes in LANES]
    check_calls(calls, [wanted] * len(calls))


def test_where() -> None:
    count = 32
    chosen, calls = np.arange(count) % 3 == 0, []
    for dtype in dt.ALL:
        if dtype is dt.bool_:
            a, b = np.arange(count) % 2 == 0, np.arange(count) % 5 == 0
        else:
            a, b = (np.arange(n, n + count).astype(storage(dtype)) for n in (1, 50))
        sources = [dt.bool_, dtype, dtype]
        calls += [Call("where", dtype, [chosen, a, b], sources, lanes) for lanes in LANES]
    check_calls(calls, [np.where(*call.arrays) for call in calls])
