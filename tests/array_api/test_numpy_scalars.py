"""numpy scalars are Python scalars of their kind, wherever a scalar is taken; arrays are refused.

Most of it needs no computing: the graph with the numpy scalar is the graph with Python's.
"""

from __future__ import annotations

import operator

import numpy as np
import pytest

import tensor as xp
from compilers.plan.signature import signature
from tests.support import check

INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float16, np.float32, np.float64, np.longdouble]
OPERATORS = [
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift",
    "rshift", "lt", "le", "gt", "ge", "eq", "ne",
]  # fmt: skip
DTYPES = list(xp.__array_namespace_info__().dtypes())
whole = xp.arange(6)
real = xp.astype(whole, xp.float32)
IMAGE, KERNEL = xp.ones((1, 2, 4, 4)), xp.ones((2, 1, 2, 2))
KEY = xp.full(2, 7, dtype=xp.uint32)


def same_graph(got, want, context=""):
    """`got` computes exactly what `want` does."""
    results = [x if isinstance(x, list | tuple) else [x] for x in (got, want)]
    for one, other in zip(*results, strict=True):
        check(all(type(n) is int for n in one.shape), f"{context}: {one.shape}")
        check(signature([one._node])[0] == signature([other._node])[0], context)


def numpys(dtype, value):
    """numpy 2's dtype of an array beside a Python scalar; bfloat16 is what float16 is."""
    name = np.result_type(np.zeros(1, "float16" if dtype == "bfloat16" else dtype), value).name
    return dtype if name == "float16" and dtype == "bfloat16" else name


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("kind", "value"), [([np.bool_], True), (INTEGERS, 3), (FLOATS, 2.5)], ids=["bool", "int", "f"]
)
def test_result_type_and_the_operations_agree(dtype, kind, value):
    x, want = xp.ones(2, dtype=getattr(xp, dtype)), numpys(dtype, value)
    for scalar in [value, *(made(value) for made in kind)]:
        results = [
            x + scalar, scalar + x, xp.add(x, scalar), xp.add(scalar, x), xp.maximum(x, scalar),
            xp.minimum(scalar, x), xp.where(x == x, x, scalar), xp.where(x == x, scalar, x),
        ]  # fmt: skip
        found = [xp.result_type(x, scalar), xp.result_type(scalar, x.dtype)]
        found += [result.dtype for result in results]
        np.testing.assert_equal({one.name for one in found}, {want}, repr(scalar))


@pytest.mark.parametrize("a", DTYPES)
def test_operations_of_two_tensors_agree_with_result_type(a):
    for b in DTYPES:
        x, y = xp.ones((2, 2), dtype=getattr(xp, a)), xp.ones((2, 2), dtype=getattr(xp, b))
        results = [x + y, xp.maximum(x, y), xp.where(x == y, x, y), xp.concat([x, y])]
        results += [] if a == b == "bool" else [x @ y, xp.tensordot(x, y)]
        want = xp.result_type(x, y)
        if "bfloat16" not in (a, b):
            np.testing.assert_equal(want.name, np.promote_types(a, b).name)
        check(all(result.dtype is want for result in results), f"{a} {b}")


def test_scalars_alone():
    cases = [
        ((1, 1.0), "float32"), ((1.0, 1), "float32"), ((True, 1), "int64"),
        ((np.int8(1), np.float64(1)), "float32"), ((True, np.bool_(0)), "bool"),
    ]  # fmt: skip
    for values, want in cases:
        np.testing.assert_equal(xp.result_type(*values).name, want)
        np.testing.assert_equal(xp.where(whole > 2, *values[:2]).dtype.name, want)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_in_both_orders(name):
    function, bits = getattr(operator, name), name in ("and_", "or_", "xor", "lshift", "rshift")
    for made in [*INTEGERS, *([] if bits else FLOATS)]:
        plain = 2 if made in INTEGERS else 2.0
        same_graph(function(whole, made(2)), function(whole, plain), f"x {name} {made}")
        same_graph(function(made(2), whole), function(plain, whole), f"{made} {name} x")
    if name in ("and_", "or_", "xor", "eq", "ne"):
        same_graph(function(whole > 2, np.bool_(True)), function(whole > 2, True))
        same_graph(function(np.bool_(True), whole > 2), function(True, whole > 2))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "pow", "less", "equal", "hypot"])
def test_functions_in_both_orders(name):
    function = getattr(xp, name)
    for made in [*INTEGERS, *FLOATS]:
        plain = 2 if made in INTEGERS else 2.0
        same_graph(function(whole, made(2)), function(whole, plain), f"{name} {made}")
        same_graph(function(made(2), whole), function(plain, whole), f"{name} {made}")


def test_in_place():
    x = xp.asarray([1, 2, 3])
    x += np.int8(2)
    x *= np.uint64(3)
    x[1] = np.float64(7)
    np.testing.assert_array_equal(x.numpy(), [9, 7, 15])


def test_integers_beyond_float64_are_exact():
    x, one = xp.asarray([2**62, 2**62 + 1]), np.int64(1)
    for result in (x + one, one + x, xp.add(x, one), xp.add(one, x)):
        np.testing.assert_array_equal(result.numpy(), [2**62 + 1, 2**62 + 2])
    np.testing.assert_array_equal((x == np.int64(2**62)).numpy(), [True, False])
    np.testing.assert_array_equal((np.uint64(2**62 + 1) == x).numpy(), [False, True])
    np.testing.assert_array_equal(xp.clip(x, np.int64(2**62 + 1)).numpy(), [2**62 + 1] * 2)
    np.testing.assert_array_equal((xp.asarray([0, 1, 2]) == np.int64(1)).numpy(), [0, 1, 0])


def test_beyond_the_dtype_as_python():
    small = xp.zeros(2, dtype=xp.int8)
    np.testing.assert_array_equal((small < np.int64(300)).numpy(), [True, True])
    np.testing.assert_array_equal((np.int64(300) < small).numpy(), [False, False])
    for call in (lambda: small + np.int64(300), lambda: np.uint64(300) + small,
                 lambda: xp.full(2, np.int64(300), dtype=xp.int8)):  # fmt: skip
        with pytest.raises(OverflowError, match="300"):
            call()


TAKEN = [
    lambda i, f: xp.full((i(2), i(3)), f(1.5)),
    lambda i, f: xp.full(2, i(5)),
    lambda i, f: xp.zeros([i(2), i(2)]),
    lambda i, f: xp.eye(i(3), i(2), k=i(1)),
    lambda i, f: xp.arange(i(3)),
    lambda i, f: xp.arange(i(1), i(9), i(2)),
    lambda i, f: xp.arange(f(0.5), f(3.0), f(0.5)),
    lambda i, f: xp.linspace(f(0.5), f(3.0), i(3)),
    lambda i, f: xp.tril(xp.ones((3, 3)), k=i(1)),
    lambda i, f: xp.clip(whole, i(1), i(4)),
    lambda i, f: xp.clip(xp.astype(whole, xp.uint8), i(0), f(4.0)),
    lambda i, f: xp.where(whole > i(1), f(0.5), i(2)),
    lambda i, f: xp.where(whole > i(1), whole, f(2.5)),
    lambda i, f: xp.logaddexp(real, f(1.5)),
    lambda i, f: xp.reshape(whole, (i(2), i(3))),
    lambda i, f: xp.broadcast_to(xp.ones(1), i(3)),
    lambda i, f: xp.expand_dims(whole, i(1)),
    lambda i, f: xp.sum(xp.ones((2, 3)), axis=i(1)),
    lambda i, f: xp.sum(xp.ones((2, 3)), axis=(i(0), i(1))),
    lambda i, f: xp.var(real, correction=i(1)),
    lambda i, f: xp.std(real, correction=f(0.5)),
    lambda i, f: xp.roll(whole, i(2)),
    lambda i, f: xp.roll(xp.ones((2, 3)), (i(1), i(2)), axis=(i(0), i(1))),
    lambda i, f: xp.split(whole, i(3)),
    lambda i, f: xp.split(whole, [i(2), i(3)]),
    lambda i, f: xp.tile(whole, i(2)),
    lambda i, f: xp.repeat(whole, i(2)),
    lambda i, f: xp.pad(real, [(i(1), i(2))], constant_values=f(1.5)),
    lambda i, f: xp.diff(whole, n=i(2)),
    lambda i, f: xp.topk(real, i(2)),
    lambda i, f: xp.unstack(xp.ones((2, 3)), axis=i(1)),
    lambda i, f: xp.tensordot(xp.ones((2, 3)), xp.ones((3, 2)), axes=i(1)),
    lambda i, f: xp.vecdot(real, real, axis=-i(1) if i is int else np.int64(-1)),
    lambda i, f: xp.layer_norm(real, axis=i(0), eps=f(0.5)),
    lambda i, f: xp.conv2d(IMAGE, KERNEL, stride=i(2), padding=i(1), groups=i(2)),
    lambda i, f: xp.max_pool2d(IMAGE, (i(2), i(1)), stride=i(1)),
    lambda i, f: xp.scaled_dot_product_attention(*[xp.ones((2, 3))] * 3, scale=f(0.5)),
    lambda i, f: xp.random.bits(KEY, (i(2),)),
    lambda i, f: xp.random.uniform(KEY, i(2), low=f(0.5), high=f(1.5)),
    lambda i, f: xp.random.randint(KEY, i(2), i(0), i(9)),
    lambda i, f: xp.random.permutation(KEY, i(5)),
    lambda i, f: xp.random.split(KEY, i(2)),
    lambda i, f: whole[i(2)],
    lambda i, f: whole[i(1) : i(4) : i(2)],
    lambda i, f: xp.ones((2, 3))[i(1), ..., i(0)],
]


@pytest.mark.parametrize("number", range(len(TAKEN)))
def test_wherever_a_scalar_is_taken(number):
    call = TAKEN[number]
    want = call(int, float)
    for i in (np.int64, np.uint8, np.int32):
        for f in (np.float64, np.float32, np.float16):
            got = call(i, f)
            same_graph(got, want, f"{i.__name__} {f.__name__}")


def test_keys_from_numpy_seeds():
    for seed in (7, -1, 2**40 + 3):
        want = xp.random.key(seed).numpy()
        np.testing.assert_array_equal(xp.random.key(np.int64(seed)).numpy(), want)
    want = xp.random.fold_in(KEY, 3).numpy()
    np.testing.assert_array_equal(xp.random.fold_in(KEY, np.uint8(3)).numpy(), want)


def test_asarray_keeps_numpys_dtypes():
    np.testing.assert_equal(xp.asarray(np.int8(3)).dtype.name, "int8")
    np.testing.assert_equal(xp.asarray(np.float64(3)).dtype.name, "float64")
    np.testing.assert_equal(xp.asarray([np.float64(3), 1.5]).dtype.name, "float32")
    np.testing.assert_equal(xp.asarray([np.int64(3), np.int64(2**62 + 1)]).tolist(), [3, 2**62 + 1])
    np.testing.assert_equal(xp.asarray([whole[1], whole[2]]).tolist(), [1, 2])
    with pytest.raises(TypeError, match="complex64"):
        xp.asarray(np.complex64(1))


@pytest.mark.parametrize("name", [*OPERATORS, "matmul"])
@pytest.mark.parametrize(
    "other", [np.arange(6), np.array(1), np.arange(6.0), [0] * 6, (0,) * 6, 1j, np.complex64(1)],
    ids=lambda other: type(other).__name__,
)  # fmt: skip
def test_arrays_beside_tensors_are_refused(name, other):
    function = getattr(operator, name)
    for call in (lambda: function(whole, other), lambda: function(other, whole)):
        with pytest.raises(TypeError) as caught:
            call()
        if name != "matmul" or not isinstance(other, np.generic):
            check("asarray" in str(caught.value), str(caught.value))


@pytest.mark.parametrize("name", ["iadd", "imul", "iand", "ipow", "imatmul"])
def test_arrays_are_refused_in_place(name):
    with pytest.raises(TypeError, match="Tensor"):
        getattr(operator, name)(np.arange(6), whole)
    with pytest.raises(TypeError, match="asarray"):
        getattr(operator, name)(xp.arange(6), np.arange(6))


@pytest.mark.parametrize(
    "scalar",
    [np.str_("1"), np.bytes_(b"1"), np.datetime64(1, "s"), np.timedelta64(1), np.void(b"a")],
    ids=lambda scalar: type(scalar).__name__,
)
def test_numpy_scalars_that_are_no_numbers(scalar):
    calls = [
        lambda: whole + scalar, lambda: whole == scalar, lambda: xp.full(2, scalar),
        lambda: xp.where(whole > 1, whole, scalar), lambda: xp.result_type(whole, scalar),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(TypeError, match="asarray"):
            call()


def test_what_is_no_array_may_compare_itself():
    class Everything:
        def __eq__(self, other):
            return "equal"

        __hash__ = None

    np.testing.assert_equal(Everything() == whole, "equal")
    np.testing.assert_equal(whole == Everything(), "equal")
    check(operator.eq(whole, None) is False and operator.ne(whole, "a") is True)
