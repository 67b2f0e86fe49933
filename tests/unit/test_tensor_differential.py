"""Random programs: the engine against the numpy oracle, over shapes, strides and dtypes."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensor as xp
from tensor import engine
from tests import oracle
from tests.support import check

EXAMPLES = 40
SETTINGS = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
NAMES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
]  # fmt: skip
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


def there(dtype):
    """Whether the device has a dtype: the CPU has all."""
    return str(dtype) in engine.device().limits.dtypes


@st.composite
def arrays(draw, names=NAMES, shapes=SHAPES):
    """An array, sometimes a strided view of a larger one."""
    dtype = np.dtype(draw(st.sampled_from(list(filter(there, names)))))
    array = draw(hnp.arrays(dtype, draw(shapes)))
    kind = draw(st.sampled_from(["whole", "transposed", "reversed", "skipped"]))
    if kind == "transposed":
        return array.T
    if kind == "reversed":
        return array[tuple(slice(None, None, -1) for _ in array.shape)]
    if kind == "skipped" and array.ndim:
        return array[..., ::2]
    return array


def agree(x, ulps=0.0):
    """The engine's elements of x equal the oracle's, NaN and the signs of zero included."""
    want = oracle.evaluate(x._node)
    got = x.numpy()
    np.testing.assert_equal((got.shape, got.dtype), (want.shape, want.dtype))
    if x.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    scale = ulps * EPS[x.dtype.name]
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=scale, atol=0, equal_nan=True
    )
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))


@SETTINGS
@given(arrays(), arrays(), st.sampled_from(["add", "multiply", "maximum", "equal", "less"]))
def test_two_arrays_as_numpy(a, b, name):
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        b = b.reshape(-1)[:1] if b.size else np.ones(1, b.dtype)
        shape = np.broadcast_shapes(a.shape, b.shape)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(a, b)
    assume(there(want.dtype))
    got = getattr(xp, name)(xp.asarray(a), xp.asarray(b))
    np.testing.assert_equal((got.shape, got.numpy().dtype), (shape, want.dtype))
    np.testing.assert_array_equal(got.numpy(), want)


@SETTINGS
@given(arrays(), st.data())
def test_reductions(a, data):
    axes = data.draw(st.sets(st.integers(0, max(a.ndim - 1, 0)), max_size=a.ndim))
    axis = tuple(sorted(axes))
    name = data.draw(st.sampled_from(["sum", "prod", "max", "min", "any", "all", "count_nonzero"]))
    if name in ("max", "min") and any(a.shape[i] == 0 for i in axis):
        return
    if a.dtype.kind == "f":
        # Powers of two and few elements: sums and products are exact in any order.
        a = np.where(np.isfinite(a), np.sign(a) * 2, a)
    got = getattr(xp, name)(xp.asarray(a), axis=axis)
    assume(there(got.dtype.name))
    with np.errstate(all="ignore"):
        want = getattr(np, name)(a, axis=axis)
    if a.dtype == np.float16 and name in ("sum", "prod"):
        with np.errstate(all="ignore"):
            want = getattr(np, name)(a.astype(np.float32), axis=axis).astype(np.float16)
    np.testing.assert_array_equal(got.numpy(), want)


def moved(draw, x):
    """One random step that moves elements. Only numbers are drawn: printing computes."""
    step = draw(st.sampled_from(["permute", "flip", "slice", "pad", "reshape", "expand", "roll"]))
    rank = x.ndim
    if step == "permute":
        return xp.permute_dims(x, draw(st.permutations(range(rank))))
    if step == "flip":
        return xp.flip(x)
    if step == "slice":
        return x[tuple(draw(st.slices(n)) for n in x.shape)]
    if step == "pad":
        return xp.pad(x, [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in x.shape])
    if step == "expand" and rank < 4:
        return xp.broadcast_to(x, (draw(st.integers(0, 3)), *x.shape))
    if step == "roll":
        return xp.roll(x, draw(st.integers(-7, 7)))
    size = x.size
    divisors = [d for d in range(1, size + 1) if size % d == 0] or [1]
    first = draw(st.sampled_from(divisors))
    return xp.reshape(x, (first, size // first))


@SETTINGS
@given(arrays(["int32", "float32"]), st.data())
def test_movement_in_chains(a, data):
    x = xp.asarray(a)
    for _ in range(data.draw(st.integers(1, 6))):
        x = moved(data.draw, x)
        if x.size > 3000:
            break
    agree(x)


FLOAT_STEPS = ["sqrt", "exp", "abs", "negative", "floor", "square", "sign", "isnan", "tanh"]


@SETTINGS
@given(arrays(["float32", "float64", "int16", "uint8"]), st.data())
def test_fused_chains(a, data):
    """Elementwise steps before, between and after movement and a reduction."""
    x = xp.asarray(a)
    for _ in range(data.draw(st.integers(1, 3))):
        x = getattr(xp, data.draw(st.sampled_from(["abs", "square", "sign", "floor"])))(x)
        x = moved(data.draw, x)
        if x.size > 3000:
            return
        x = xp.where(x > 1, x, x + 2)
    if x.dtype.kind == "f":
        x = xp.clip(xp.where(xp.isnan(x), 0.0, x), -64.0, 64.0)
        x = xp.floor(x)  # small whole numbers: exact in any order of summation
    y = xp.sum(x, axis=-1, keepdims=True) if x.ndim else x
    assume(there(y.dtype.name))
    agree(xp.maximum(x, 1) - y)


@SETTINGS
@given(arrays(["float16", "float32", "float64", "int8"]), st.sampled_from(FLOAT_STEPS))
def test_functions(a, name):
    agree(getattr(xp, name)(xp.asarray(a)), ulps=4)


@SETTINGS
@given(hnp.arrays(np.float32, SHAPES), st.sampled_from(["add", "multiply", "divide", "subtract"]))
def test_bfloat16_rounds_each_result(a, name):
    x = xp.astype(xp.asarray(a), xp.bfloat16)
    agree(getattr(xp, name)(x, xp.flip(x)))


@SETTINGS
@given(arrays(["int32", "float64"]), st.data())
def test_sort_gather_scan(a, data):
    if a.ndim == 0:
        return
    axis = data.draw(st.integers(0, a.ndim - 1))
    x = xp.asarray(a)
    descending = data.draw(st.booleans())
    agree(xp.sort(x, axis=axis, descending=descending))
    agree(xp.argsort(x, axis=axis, descending=descending))
    agree(xp.cumulative_sum(x > 0, axis=axis))
    if a.shape[axis]:
        n = a.shape[axis]
        index = data.draw(hnp.arrays(np.int64, st.integers(0, 6), elements=st.integers(-n, n - 1)))
        got = xp.take(x, xp.asarray(index), axis=axis)
        np.testing.assert_array_equal(got.numpy(), np.take(a, index, axis=axis))


@SETTINGS
@given(st.data())
def test_matmul_shapes(data):
    m, k, n = (data.draw(st.integers(0, 40)) for _ in range(3))
    batch = data.draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    a, b = rng.integers(-8, 8, (*batch, m, k)), rng.integers(-8, 8, (k, n))
    dtypes = [xp.float32, xp.bfloat16, xp.float64, xp.int16]
    dtype = data.draw(st.sampled_from([one for one in dtypes if there(one.name)]))
    got = xp.asarray(a, dtype=dtype) @ xp.asarray(b, dtype=dtype)
    want = a @ b
    if dtype is xp.bfloat16:
        want = oracle.round_bfloat16(want.astype(np.float32))
    np.testing.assert_array_equal(got.numpy(), want)


def test_the_oracle_is_the_oracle():
    """The oracle agrees with numpy where numpy can say it directly."""
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    x = xp.asarray(values)
    node = (xp.sum(x[::2, ::-1] * 2, axis=0) + 1)._node
    np.testing.assert_array_equal(oracle.evaluate(node), (values[::2, ::-1] * 2).sum(axis=0) + 1)
    check(oracle.evaluate(xp.asarray([1, 2])._node).tolist() == [1, 2])
