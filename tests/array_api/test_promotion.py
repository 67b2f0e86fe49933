"""The standard's promotion tables, Python scalars, and dtype questions."""

from __future__ import annotations

import numpy as np
import pytest

import tensor as xp
from tests.array_api.compare import same
from tests.support import check

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
FLOATING = ["float16", "float32", "float64"]
# The standard's table of mixed signs: rows int8..int64, columns uint8, uint16, uint32.
MIXED = [
    ["int16", "int32", "int64"],
    ["int16", "int32", "int64"],
    ["int32", "int32", "int64"],
    ["int64", "int64", "int64"],
]


def table():
    """(a, b, result) as the standard's tables have them."""
    for family in (SIGNED, UNSIGNED, FLOATING):
        for i, a in enumerate(family):
            for j, b in enumerate(family):
                yield a, b, family[max(i, j)]
    for row, a in enumerate(SIGNED):
        for column, b in enumerate(UNSIGNED[:3]):
            yield a, b, MIXED[row][column]
            yield b, a, MIXED[row][column]
    yield "bool", "bool", "bool"
    for other in ("float32", "float64"):
        yield "bfloat16", other, other
    yield "bfloat16", "bfloat16", "bfloat16"
    yield "bfloat16", "float16", "float32"


@pytest.mark.parametrize(("a", "b", "want"), list(table()))
def test_the_standards_tables(a, b, want):
    da, db = getattr(xp, a), getattr(xp, b)
    check(xp.result_type(da, db) is getattr(xp, want), f"{xp.result_type(da, db)}")
    x, y = xp.ones(2, dtype=da), xp.ones(2, dtype=db)
    check(xp.result_type(x, y) is getattr(xp, want))
    if a != "bool":
        check((x + y).dtype is getattr(xp, want))
        check((x * y).dtype is getattr(xp, want))
    check((x == y).dtype is xp.bool)


@pytest.mark.parametrize("a", [*SIGNED, *UNSIGNED, *FLOATING, "bool"])
@pytest.mark.parametrize("b", [*SIGNED, *UNSIGNED, *FLOATING, "bool"])
def test_beyond_the_tables_as_numpy(a, b):
    want = np.promote_types(a, b).name
    np.testing.assert_equal(xp.result_type(getattr(xp, a), getattr(xp, b)).name, want)


@pytest.mark.parametrize(
    ("dtype", "scalar", "want"),
    [
        ("int8", 3, "int8"), ("uint64", 3, "uint64"), ("float16", 3, "float16"),
        ("float16", 2.5, "float16"), ("bfloat16", 2.5, "bfloat16"), ("float32", 2.5, "float32"),
        ("float64", 1, "float64"), ("bool", True, "bool"), ("int16", True, "int16"),
        ("int32", 2.5, "float64"), ("bool", 1, "int64"),
    ],
)  # fmt: skip
def test_python_scalars_are_weak(dtype, scalar, want):
    x = xp.ones((2,), dtype=getattr(xp, dtype))
    np.testing.assert_equal((x + scalar).dtype.name, want)
    np.testing.assert_equal((scalar + x).dtype.name, want)
    np.testing.assert_equal(xp.add(x, scalar).dtype.name, want)
    np.testing.assert_equal(xp.result_type(x, scalar).name, want)


def test_scalar_that_does_not_fit():
    x = xp.ones(2, dtype=xp.uint8)
    with pytest.raises(OverflowError, match="300"):
        x + 300
    with pytest.raises(OverflowError, match="-1"):
        x + -1


def test_comparison_with_an_integer_beyond_the_dtype():
    x = xp.asarray([0, 255], dtype=xp.uint8)
    for value in (-1, 300):
        for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
            want = getattr(np, name)(np.array([0, 255]), value)
            same(getattr(xp, name)(x, value), want, context=f"{name} {value}")
            same(getattr(xp, name)(value, x), getattr(np, name)(value, np.array([0, 255])))


def test_result_type_needs_something():
    with pytest.raises(ValueError, match="at least one"):
        xp.result_type()
    check(xp.result_type(1, xp.int8) is xp.int8)
    check(xp.result_type(xp.int8, xp.uint8, xp.int32) is xp.int32)


def test_can_cast():
    check(xp.can_cast(xp.int8, xp.int16))
    check(not xp.can_cast(xp.int16, xp.int8))
    check(xp.can_cast(xp.bool, xp.bool))
    check(not xp.can_cast(xp.ones(1, dtype=xp.float64), xp.float32))


@pytest.mark.parametrize("name", FLOATING)
def test_finfo(name):
    got, want = xp.finfo(getattr(xp, name)), np.finfo(name)
    for field in ("bits", "eps", "max", "min", "smallest_normal"):
        np.testing.assert_equal(getattr(got, field), float(getattr(want, field)))
    check(type(got.eps) is float)


def test_finfo_of_bfloat16():
    got = xp.finfo(xp.bfloat16)
    as_float = (np.array([0x7F7F, 0x0080], np.uint32) << np.uint32(16)).view(np.float32)
    np.testing.assert_equal((got.max, got.smallest_normal), tuple(map(float, as_float)))
    np.testing.assert_equal((got.bits, got.eps, got.min), (16, 2.0**-7, -got.max))
    with pytest.raises(TypeError, match="floating"):
        xp.finfo(xp.int8)


@pytest.mark.parametrize("name", SIGNED + UNSIGNED)
def test_iinfo(name):
    got, want = xp.iinfo(getattr(xp, name)), np.iinfo(name)
    np.testing.assert_equal((got.bits, got.min, got.max), (want.bits, want.min, want.max))


def test_isdtype():
    kinds = {
        "bool": {"bool"},
        "signed integer": set(SIGNED),
        "unsigned integer": set(UNSIGNED),
        "integral": {*SIGNED, *UNSIGNED},
        "real floating": {*FLOATING, "bfloat16"},
        "complex floating": set(),
        "numeric": {*SIGNED, *UNSIGNED, *FLOATING, "bfloat16"},
    }
    for name in [*SIGNED, *UNSIGNED, *FLOATING, "bool", "bfloat16"]:
        dtype = getattr(xp, name)
        for kind, members in kinds.items():
            check(xp.isdtype(dtype, kind) == (name in members), f"{name} {kind}")
        check(xp.isdtype(dtype, (xp.int8, "real floating")) == (
            name == "int8" or name in kinds["real floating"]))  # fmt: skip
    with pytest.raises(ValueError, match="unknown kind"):
        xp.isdtype(xp.int8, "decimal")


def test_inspection():
    info = xp.__array_namespace_info__()
    capabilities = info.capabilities()
    check(capabilities["boolean indexing"] is False)
    check(capabilities["data-dependent shapes"] is False)
    check(info.default_dtypes()["real floating"] is xp.ones(1).dtype)
    check(info.default_dtypes()["integral"] is xp.arange(1).dtype)
    check(info.default_dtypes()["indexing"] is xp.argmax(xp.ones(2)).dtype)
    check(info.default_device() in info.devices())
    check(set(info.dtypes(kind="signed integer")) == set(SIGNED))
    check(len(info.dtypes()) == 13)
    check(xp.ones(1).__array_namespace__() is xp)
    check(xp.__array_api_version__ == "2024.12")
    with pytest.raises(ValueError, match="2020"):
        xp.ones(1).__array_namespace__(api_version="2020.01")


@pytest.mark.parametrize("source", [*SIGNED, *UNSIGNED, *FLOATING, "bool"])
@pytest.mark.parametrize("target", [*SIGNED, *UNSIGNED, *FLOATING, "bool"])
def test_casts_as_numpy(source, target):
    values = np.array([0, 1, 2, 100, 77]).astype(source)
    result = xp.astype(xp.asarray(values), getattr(xp, target))
    same(result, values.astype(target))
    np.testing.assert_equal(result.dtype.name, target)


def test_float_to_bool():
    same(xp.astype(xp.asarray([0.0, -0.0, np.nan, 0.25]), xp.bool), [False, False, True, True])


def test_float32_to_bfloat16_rounds_to_even():
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0xFF800000], np.uint32)
    want = np.array([0x3F80, 0x3F82, 0x3F81, 0x7F80, 0xFF80], np.uint32) << np.uint32(16)
    lazy = xp.astype(xp.asarray(bits.view(np.float32)), xp.bfloat16)
    same(lazy, want.view(np.float32))
    same(xp.asarray(bits.view(np.float32), dtype=xp.bfloat16), want.view(np.float32))
    same(xp.astype(lazy, xp.float32), want.view(np.float32))


def test_nan_with_a_small_payload_stays_nan_in_bfloat16():
    bits = np.array([0x7F800001, 0xFF800001, 0x7FFFFFFF], np.uint32).view(np.float32)
    same(xp.asarray(bits, dtype=xp.bfloat16), [np.nan] * 3)
    same(xp.astype(xp.asarray(bits), xp.bfloat16), [np.nan] * 3)
