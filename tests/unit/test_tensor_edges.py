"""Edges where a value, a key or a shape is unusual: what is right, and what is refused in words."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import cast

import numpy as np
import pytest

import tensor as xp
from compilers.render.c_ops import literal_text
from tests.support import check

NAN, EIGHT = float("nan"), np.array([0, 1, 2, 127, 128, 255], np.uint8)
FLOATS = [xp.float16, xp.bfloat16, xp.float32, xp.float64]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_bitcast_of_bool(dtype):
    bytes_, bools = EIGHT.view(dtype), np.array([False, True])
    same = xp.bitcast(xp.asarray(bools), getattr(xp, dtype))
    np.testing.assert_array_equal(same.numpy(), bools.view(dtype))
    back = xp.bitcast(xp.asarray(bytes_), xp.bool)
    np.testing.assert_array_equal(back.numpy(), bytes_ != 0)
    np.testing.assert_array_equal(xp.bitcast(back, xp.uint8).numpy(), [0, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(
        (~xp.bitcast(xp.asarray(bytes_) + 0, xp.bool)).numpy(), bytes_ == 0
    )
    check(xp.bitcast(back, xp.bool).dtype is xp.bool)
    with pytest.raises(TypeError, match="differ in size"):
        xp.bitcast(back, xp.int16)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_the_sign_of_a_nan_scalar(dtype):
    for value, sign in ((-NAN, True), (NAN, False), (np.float32(-NAN), True)):
        check(np.signbit(value) == sign)
        made = [xp.full((2,), value, dtype=dtype), xp.asarray(float(value), dtype=dtype)]
        made += [xp.asarray([value], dtype=dtype), xp.where(xp.ones(2) > 0, value, made[0])]
        for x in made:
            bits = xp.signbit(x).numpy()
            check(np.all(bits == sign) and np.all(np.isnan(x.numpy())), f"{value} {bits}")
        check(np.all(xp.signbit(-made[0]).numpy() != sign))
        one = xp.copysign(xp.ones(2, dtype=dtype), value).numpy()
        np.testing.assert_array_equal(one, [-1.0 if sign else 1.0] * 2)


def test_two_nans_of_one_graph_keep_their_signs():
    both = xp.concat([xp.full(2, NAN), xp.full(2, -NAN), xp.full(2, 0.0), xp.full(2, -0.0)])
    np.testing.assert_array_equal(xp.signbit(both).numpy(), [0, 0, 1, 1, 0, 0, 1, 1])


def test_the_sign_of_a_nan_in_c():
    text = literal_text(-NAN, xp.float32)
    check(text.startswith("(f32)-") and "nan" in text, text)
    check("-" not in literal_text(NAN, xp.float64))


def test_floats_that_jit_tells_apart():
    """A selection keeps the sign of a NaN; a sum need not (IEEE 754-2019, 6.3)."""
    signs = xp.jit(lambda x, s: xp.signbit(xp.where(x == 0, xp.full(2, s), x)))
    x = xp.asarray([-0.0, -0.0])
    for kind in (float, np.float64, np.float32, np.float16):
        for value in (NAN, -NAN, 0.0, -0.0):
            want = math.copysign(1, value) < 0
            for _ in range(2):
                check(np.all(signs(x, kind(value)).numpy() == want), f"{kind.__name__} {value}")


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_expand_dims_with_a_positional_axis(axis):
    values = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(
        xp.expand_dims(xp.asarray(values), axis).numpy(), np.expand_dims(values, axis)
    )


MASKED = [
    ((4,), (4,), 5.0), ((4, 3), (4, 3), 5.0), ((4, 3), (4,), 5.0), ((4, 3), (4,), [1.0, 2.0, 3.0]),
    ((4, 3), (4,), [[1.0, 2.0, 3.0]]), ((4, 3, 2), (4, 3), [7.0, 8.0]), ((), (), 5.0),
    ((4, 3, 2), (4,), [[7.0], [8.0], [9.0]]), ((0, 3), (0,), 5.0), ((4, 3), (4,), np.float64(5)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "over", "value"), MASKED, ids=str)
def test_assignment_through_a_mask(shape, over, value):
    rng = np.random.default_rng(3)
    want, mask = rng.random(shape, dtype=np.float32), np.asarray(rng.random(over) < 0.5)
    x, before = xp.asarray(want.copy()), xp.asarray(want.copy())
    want[mask] = value
    given = xp.asarray(value) if isinstance(value, list) else value
    x[xp.asarray(mask)] = given
    np.testing.assert_array_equal(x.numpy(), want)
    for key in (mask, (xp.asarray(mask),), mask.tolist() if mask.size > 1 else mask):
        y = before + 0
        y[key] = given
        np.testing.assert_array_equal(y.numpy(), want)


def test_a_mask_that_is_computed():
    x = xp.asarray([3.0, -1.0, 2.0, -5.0])
    x[x < 0] = 0
    np.testing.assert_array_equal(x.numpy(), [3.0, 0.0, 2.0, 0.0])
    whole = xp.asarray([1, 2, 3], dtype=xp.int16)
    whole[whole > 1] = xp.asarray(7.9)
    np.testing.assert_array_equal(whole.numpy(), [1, 7, 7])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x, mask: x.__setitem__(mask[:2], 0), IndexError),
        (lambda x, mask: x.__setitem__(xp.ones((2, 3, 1)) > 0, 0), IndexError),
        (lambda x, mask: x.__setitem__(mask, xp.ones(2)), ValueError),
        (lambda x, mask: x.__setitem__(mask, xp.ones((2, 3))), ValueError),
        (lambda x, mask: x.__setitem__((mask, 0), 0), IndexError),
        (lambda x, mask: x.__setitem__((..., mask), 0), IndexError),
        (lambda x, mask: x.__setitem__(xp.asarray([0, 1]), 0), IndexError),
        (lambda x, mask: x.__setitem__(True, 0), IndexError),
        (lambda x, mask: x[mask], IndexError),
        (lambda x, mask: x[mask.numpy()], IndexError),
        (lambda x, mask: x[mask.tolist()], IndexError),
        (lambda x, mask: x[xp.Tensor(mask._node, "elsewhere")], IndexError),
        (lambda x, mask: x.__setitem__(xp.Tensor(mask._node, "elsewhere"), 0), ValueError),
        (lambda x, mask: x[xp.Tensor(xp.arange(2)._node, "elsewhere")], ValueError),
    ],
)
def test_other_masks_are_refused(call, error):
    x, mask = xp.ones((3, 4)), xp.asarray([True, False, True])
    with pytest.raises(error, match=r"where|mask|\.to"):
        call(x, mask)
    np.testing.assert_array_equal(x.numpy(), np.ones((3, 4)))


SPECS = {
    float: ["", ".3f", "8.2e", "g", "+.1%", ">12", "n"],
    int: ["", "d", "05d", "x", ".2f", ",", "e"],
}


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(2.71828, "float64"), (-0.5, "float32"), (1.5, "bfloat16"), (NAN, "float16"), (-7, "int8"),
     (2**63, "uint64"), (True, "bool")],
)  # fmt: skip
def test_a_tensor_of_rank_0_formats_as_its_number(value, dtype):
    x = xp.asarray([value, value], dtype=getattr(xp, dtype))[0]
    for spec in SPECS[float if isinstance(value, float) else int]:
        np.testing.assert_equal(format(x, spec), format(value, spec))
    np.testing.assert_equal(f"{x}", f"{value}")


def test_other_ranks_do_not_format():
    x = xp.asarray([1.0, 2.0])
    np.testing.assert_equal(f"{x}", str(x))
    with pytest.raises(TypeError, match="Tensor"):
        format(x, ".2f")


@pytest.mark.parametrize("value", [2.567, -2.5, 3.5, 0.5, 1e10])
def test_a_tensor_of_rank_0_rounds_as_its_number(value):
    x = xp.asarray([value], dtype=xp.float64)[0]
    np.testing.assert_equal(round(x), round(value))
    check(type(round(x)) is int and type(round(x, 1)) is float)
    for digits in (0, 2, -1, np.int64(1)):
        np.testing.assert_equal(round(x, digits), round(value, digits))
    np.testing.assert_equal((int(x), math.floor(x)), (int(value), math.floor(value)))
    np.testing.assert_equal(round(xp.asarray([1234])[0], -2), 1200)
    with pytest.raises(TypeError, match="rank 0"):
        round(xp.asarray([value]))


def test_an_integer_tensor_of_rank_0_is_an_index():
    x = xp.asarray([2, 300], dtype=xp.uint16)
    np.testing.assert_equal("abc"[x[0]], "c")
    np.testing.assert_equal((hex(x[1]), len(range(x[1])), operator.index(x[0])), ("0x12c", 300, 2))
    np.testing.assert_equal(xp.zeros(x).shape, (2, 300))
    with pytest.raises(TypeError, match="integer"):
        operator.index(xp.asarray(True))


OUTSIDE = {
    "int8": [-128, -6, -5, -1, 0, 4, 5, 127],
    "uint8": [0, 4, 5, 255],
    "int64": [-(2**63), -6, -5, -1, 4, 5, 2**63 - 1],
    "uint64": [0, 4, 5, 2**63 - 1, 2**63, 2**64 - 1],
}


@pytest.mark.parametrize("dtype", OUTSIDE)
def test_an_index_tensor_outside_of_its_axis_means_the_nearest_end(dtype):
    """As the docstrings of take, take_along_axis and tensor/indexing.py say."""
    values, given = np.arange(10.0, 15.0), OUTSIDE[dtype]
    places = [min(max(i + 5 if i < 0 else i, 0), 4) for i in given]
    x, index = xp.asarray(values), xp.asarray(given, dtype=getattr(xp, dtype))
    rows = xp.asarray(np.stack([values, -values], axis=1))
    for got in (x[index], xp.take(x, index), xp.take_along_axis(x, index),
                xp.embedding(rows, index)[:, 0]):  # fmt: skip
        np.testing.assert_array_equal(got.numpy(), values[places])


def test_an_index_that_the_host_knows_is_refused_outside_of_its_axis():
    x = xp.arange(5)
    for key in (5, -6, np.int64(5), [0, 5], np.array([-6]), np.array([5], np.uint64)):
        with pytest.raises(IndexError, match="out of range"):
            x[key]


def test_can_cast_wants_dtypes():
    x = xp.ones(2)
    check(xp.can_cast(x, xp.float64) and not xp.can_cast(x, xp.float16))
    for to in ("float32", np.float32, float, None, x):
        with pytest.raises(TypeError, match="one of bool"):
            xp.can_cast(x, to)


def attention(query, key, value):
    """The definition in numpy: an empty sum is 0, so that every key is looked at alike."""
    scores = query @ np.swapaxes(key, -1, -2) / math.sqrt(query.shape[-1] or 1)
    power = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
    with np.errstate(invalid="ignore"):
        return power / power.sum(axis=-1, keepdims=True) @ value


@pytest.mark.parametrize(
    ("queries", "keys", "inner", "outer"),
    [(2, 3, 0, 4), (2, 0, 4, 4), (0, 3, 4, 4), (2, 3, 4, 0), (2, 0, 0, 4), (2, 3, 4, 5)],
)
def test_attention_with_an_empty_axis(queries, keys, inner, outer):
    rng = np.random.default_rng(0)
    query, key, value = (
        rng.random((2, *shape), dtype=np.float32)
        for shape in ((queries, inner), (keys, inner), (keys, outer))
    )
    given = [xp.asarray(x) for x in (query, key, value)]
    got = xp.scaled_dot_product_attention(*given).numpy()
    np.testing.assert_allclose(got, attention(query, key, value), rtol=1e-5)
    causal = xp.scaled_dot_product_attention(*given, is_causal=True)
    np.testing.assert_equal(causal.numpy().shape, got.shape)
    check(np.all(np.isfinite(causal.numpy())))


def test_a_type_error_says_the_name_that_was_called() -> None:
    """Python's own message says __qualname__, not the name in `xp`."""

    def call(name: str, **wrong: int) -> None:
        getattr(xp, name)(xp.asarray([1.0, 2.0]), **wrong)

    with pytest.raises(TypeError, match=r"^sum\(\) got an unexpected keyword argument 'axes'"):
        call("sum", axes=0)
    for name in ("all", "any", "max", "min", "abs", "pow", "round"):
        with pytest.raises(TypeError, match=rf"^{name}\(\) "):
            call(name, nothing=0)


def test_pow_with_a_modulus_says_what_to_write() -> None:
    x, power = xp.asarray([3.0, 4.0]), cast("Callable[..., object]", pow)
    with pytest.raises(TypeError, match=r"takes no modulus; write x \*\* y % m"):
        power(x, 2, 5)
    np.testing.assert_array_equal((x**2 % 5).numpy(), np.asarray([3.0, 4.0]) ** 2 % 5)
    np.testing.assert_array_equal(pow(x, 2).numpy(), np.asarray([9.0, 16.0]))
