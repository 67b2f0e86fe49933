"""Model functions against their definitions in float64 numpy loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensor as xp
from tests.support import check

RNG = np.random.default_rng(11)
RTOL = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 4e-6, "float64": 1e-13}


def close(got, want, rtol):
    np.testing.assert_equal(got.shape, want.shape)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=rtol, atol=rtol)


def softmax(x, axis):
    power = np.exp(x - x.max(axis=axis, keepdims=True))
    return power / power.sum(axis=axis, keepdims=True)


def made(shape, dtype="float64", scale=1.0):
    """A tensor, and what it holds in float64."""
    x = xp.asarray(RNG.normal(size=shape) * scale, dtype=getattr(xp, dtype))
    return x, x.numpy().astype(np.float64)


@pytest.mark.parametrize("dtype", RTOL)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(dtype, axis):
    x, values = made((5, 6, 7), dtype, 4.0)
    got = xp.softmax(x, axis=axis)
    check(got.dtype is x.dtype)
    close(got.numpy(), softmax(values, axis), RTOL[dtype])
    close(xp.log_softmax(x, axis=axis).numpy(), np.log(softmax(values, axis)), 4 * RTOL[dtype])


def test_softmax_does_not_overflow():
    x = xp.asarray([1000.0, 1000.0, -np.inf])
    np.testing.assert_array_equal(xp.softmax(x).numpy(), [0.5, 0.5, 0.0])
    log_half = np.float32(-np.log(2))
    np.testing.assert_allclose(xp.log_softmax(x).numpy(), [log_half, log_half, -np.inf], 1e-6)


@pytest.mark.parametrize("dtype", RTOL)
@pytest.mark.parametrize("axis", [-1, (1, 2)])
def test_norms(dtype, axis):
    x, values = made((3, 4, 8), dtype)
    shape = values.shape[1:] if axis == (1, 2) else values.shape[2:]
    w, weight = made(shape, dtype)
    b, bias = made(shape, dtype)
    mean = values.mean(axis=axis, keepdims=True)
    spread = values.var(axis=axis, keepdims=True)
    want = (values - mean) / np.sqrt(spread + 1e-5)
    close(xp.layer_norm(x, axis=axis).numpy(), want, 2 * RTOL[dtype])
    close(xp.layer_norm(x, w, b, axis=axis).numpy(), want * weight + bias, 2 * RTOL[dtype])
    want = values / np.sqrt(np.mean(values**2, axis=axis, keepdims=True) + 1e-6)
    close(xp.rms_norm(x, w, axis=axis).numpy(), want * weight, 2 * RTOL[dtype])


@pytest.mark.parametrize("dtype", RTOL)
def test_activations(dtype):
    x, v = made((50,), dtype, 3.0)
    erf = np.vectorize(math.erf)(v / math.sqrt(2))
    close(xp.gelu(x).numpy(), 0.5 * v * (1 + erf), RTOL[dtype])
    inner = math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)
    close(xp.gelu(x, approximate="tanh").numpy(), 0.5 * v * (1 + np.tanh(inner)), RTOL[dtype])
    close(xp.sigmoid(x).numpy(), 1 / (1 + np.exp(-v)), RTOL[dtype])
    close(xp.silu(x).numpy(), v / (1 + np.exp(-v)), RTOL[dtype])
    np.testing.assert_array_equal(xp.relu(x).numpy(), np.maximum(v, 0))
    with pytest.raises(ValueError, match="approximate"):
        xp.gelu(x, approximate="some")


def test_activations_at_the_ends():
    x = xp.asarray([-np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(xp.sigmoid(x).numpy(), [0, 1, np.nan])
    np.testing.assert_array_equal(xp.relu(x).numpy(), [0, np.inf, np.nan])


SCALED = ("silu", "gelu", "gelu tanh")


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize("dtype", RTOL)
def test_activations_that_multiply_have_their_limits(name, dtype):
    """x times a share of it: at minus infinity 0, at infinity and at the largest number x itself.

    torch gives NaN or infinity for some of these (pytorch 160876, 185770, 187293): the expected
    values are the functions' own limits, which have the sign of x.
    """
    function = {"gelu tanh": lambda x: xp.gelu(x, approximate="tanh")}.get(name) or getattr(
        xp, name
    )
    dtype = getattr(xp, dtype)
    most = xp.finfo(dtype).max
    x = xp.asarray([-np.inf, np.inf, np.nan, most, -most, 0.0, -0.0, -100.0], dtype=dtype)
    got = function(x).numpy()
    wanted = np.array([0, np.inf, np.nan, most, 0, 0, 0], got.dtype)
    np.testing.assert_array_equal(got[:-1], wanted)
    check(abs(float(got[-1])) < 1e-40, f"{got[-1]} at -100")
    np.testing.assert_array_equal(np.signbit(got[:2]), [True, False])


def test_rows_without_a_number_above_minus_infinity():
    """As torch.softmax and torch.log_softmax have them: NaN; one number is enough for a result."""
    low = -np.inf
    x = xp.asarray([[low, low], [low, 3], [np.inf, 1], [np.nan, 1]])
    nan = np.nan
    np.testing.assert_array_equal(
        xp.softmax(x).numpy(), [[nan, nan], [0, 1], [nan, nan], [nan, nan]]
    )
    np.testing.assert_array_equal(
        xp.log_softmax(x).numpy(), [[nan, nan], [low, 0], [nan, nan], [nan, nan]]
    )


def convolution(x, w, stride, padding, dilation, groups):
    """By its definition, one output element at a time."""
    (sh, sw), (ph, pw), (dh, dw) = stride, padding, dilation
    x = np.pad(x, [(0, 0), (0, 0), (ph, ph), (pw, pw)])
    n, _, h, width = x.shape
    out, inner, kh, kw = w.shape
    oh, ow = (h - dh * (kh - 1) - 1) // sh + 1, (width - dw * (kw - 1) - 1) // sw + 1
    result = np.zeros((n, out, oh, ow))
    for o in range(out):
        first = o // (out // groups) * inner
        for i in range(oh):
            for j in range(ow):
                rows = slice(i * sh, i * sh + dh * (kh - 1) + 1, dh)
                columns = slice(j * sw, j * sw + dw * (kw - 1) + 1, dw)
                patch = x[:, first : first + inner, rows, columns]
                result[:, o, i, j] = np.sum(patch * w[o], axis=(1, 2, 3))
    return result


CONVS = [
    ((1, 1), (0, 0), (1, 1), 1, (3, 3)), ((2, 1), (1, 2), (1, 1), 1, (3, 2)),
    ((1, 1), (2, 2), (2, 2), 1, (3, 3)), ((1, 1), (1, 1), (1, 1), 2, (3, 3)),
    ((3, 2), (0, 1), (1, 3), 4, (2, 3)), ((1, 1), (0, 0), (1, 1), 1, (1, 1)),
    ((7, 7), (0, 0), (1, 1), 1, (8, 9)), ((2, 2), (0, 0), (1, 1), 2, (2, 2)),
]  # fmt: skip


@pytest.mark.parametrize("case", CONVS, ids=repr)
def test_conv2d(case):
    stride, padding, dilation, groups, size = case
    x, values = made((2, 4, 8, 9))
    w, weight = made((8, 4 // groups, *size))
    b, bias = made((8,))
    got = xp.conv2d(
        x, w, b, stride=stride, padding=padding, dilation=dilation, groups=groups
    ).numpy()
    want = convolution(values, weight, stride, padding, dilation, groups)
    close(got, want + bias[:, None, None], 1e-12)


@pytest.mark.parametrize("dtype", RTOL)
def test_conv2d_dtypes(dtype):
    x, values = made((1, 3, 6, 6), dtype)
    w, weight = made((2, 3, 3, 3), dtype)
    got = xp.conv2d(x, w, padding=1)
    check(got.dtype is x.dtype)
    want = convolution(values, weight, (1, 1), (1, 1), (1, 1), 1)
    close(got.numpy(), want, 4 * RTOL[dtype])


def test_conv2d_refuses():
    with pytest.raises(ValueError, match="groups"):
        xp.conv2d(xp.ones((1, 4, 5, 5)), xp.ones((2, 3, 3, 3)))
    with pytest.raises(ValueError, match="window"):
        xp.conv2d(xp.ones((1, 1, 2, 5)), xp.ones((1, 1, 3, 3)))


@pytest.mark.parametrize("size", [2, (3, 2)])
@pytest.mark.parametrize("stride", [None, 1, (1, 3)])
@pytest.mark.parametrize("padding", [0, 1])
def test_pooling(size, stride, padding):
    x, values = made((2, 3, 7, 8))
    kh, kw = (size, size) if isinstance(size, int) else size
    sh, sw = (kh, kw) if stride is None else (stride, stride) if stride == 1 else stride
    widths = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    pad_low = np.pad(values, widths, constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(pad_low, (kh, kw), (2, 3))[:, :, ::sh, ::sw]
    got = xp.max_pool2d(x, size, stride=stride, padding=padding)
    np.testing.assert_array_equal(got.numpy(), windows.max(axis=(4, 5)))
    zeros = np.pad(values, widths)
    windows = np.lib.stride_tricks.sliding_window_view(zeros, (kh, kw), (2, 3))[:, :, ::sh, ::sw]
    got = xp.avg_pool2d(x, size, stride=stride, padding=padding)
    close(got.numpy(), windows.mean(axis=(4, 5)), 1e-13)


def test_max_pool_of_integers():
    values = -np.arange(1, 17).reshape(1, 1, 4, 4)
    got = xp.max_pool2d(xp.asarray(values), 2, padding=1)
    np.testing.assert_array_equal(got.numpy()[0, 0], [[-1, -2, -4], [-5, -6, -8], [-13, -14, -16]])


def test_embedding():
    w, weight = made((10, 4))
    places = RNG.integers(0, 10, (3, 5))
    np.testing.assert_array_equal(xp.embedding(w, xp.asarray(places)).numpy(), weight[places])


@pytest.mark.parametrize("dtype", RTOL)
@pytest.mark.parametrize("kind", ["plain", "causal", "bool", "float"])
def test_attention(dtype, kind):
    (q, query), (k, key), (v, value) = (
        made((2, 3, n, d), dtype) for n, d in ((5, 8), (5, 8), (5, 4))
    )
    scores = query @ key.swapaxes(-1, -2) / math.sqrt(8)
    options = {}
    if kind == "causal":
        options["is_causal"] = True
        scores = np.where(np.tril(np.ones((5, 5), bool)), scores, -np.inf)
    elif kind == "bool":
        mask = RNG.random((5, 5)) > 0.4
        mask[:, 0] = True
        options["mask"] = xp.asarray(mask)
        scores = np.where(mask, scores, -np.inf)
    elif kind == "float":
        extra, mask = made((5, 5), dtype)
        options["mask"] = extra
        scores = scores + mask
    got = xp.scaled_dot_product_attention(q, k, v, **options)
    check(got.dtype is q.dtype)
    close(got.numpy(), softmax(scores, -1) @ value, 3 * RTOL[dtype])


@pytest.mark.parametrize("dtype", RTOL)
@pytest.mark.parametrize("kind", ["bool", "float", "scores", "causal"])
def test_queries_that_no_key_is_left_for_give_0(dtype, kind):
    """pytorch 156707, mlx 2395: padding masks whole rows. Other rows are as without them."""
    q, k, v = (made((1, 2, n, d), dtype)[0] for n, d in ((4, 8), (4, 8), (4, 4)))
    plain = xp.scaled_dot_product_attention(q, k, v, is_causal=kind == "causal").numpy()
    kept = np.ones((4, 4), bool)
    kept[1] = kept[3] = False
    mask = xp.asarray(kept)
    if kind == "float":
        mask = xp.astype(xp.where(mask, 0.0, -np.inf), getattr(xp, dtype))
    if kind == "scores":  # a query of -inf on keys above 0
        k, mask = abs(k), None
        plain = xp.scaled_dot_product_attention(q, k, v).numpy()
        q = xp.where(xp.asarray(kept[:, :1]), q, xp.asarray(-np.inf, dtype=q.dtype))
    got = xp.scaled_dot_product_attention(q, k, v, mask=mask, is_causal=kind == "causal").numpy()
    np.testing.assert_array_equal(got[..., 1::2, :], 0 * plain[..., 1::2, :])
    np.testing.assert_array_equal(got[..., ::2, :], plain[..., ::2, :])
    check(
        np.isfinite(got).all() and abs(plain[..., 1, :]).max() > 0, "without the mask it is not 0"
    )


def test_masked_rows_are_torch_s():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    q, k, v = (RNG.standard_normal((1, 2, 4, 8)).astype(np.float32) for _ in range(3))
    mask = RNG.random((4, 4)) > 0.5
    mask[2] = False
    added = np.where(mask, RNG.standard_normal((4, 4)), -np.inf).astype(np.float32)
    attend = torch.nn.functional.scaled_dot_product_attention
    for chosen in (mask, added):
        want = attend(*map(torch.asarray, (q, k, v)), attn_mask=torch.asarray(chosen)).numpy()
        given = map(xp.asarray, (q, k, v))
        got = xp.scaled_dot_product_attention(*given, mask=xp.asarray(chosen)).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    x = np.float32([-np.inf, 0, 1, np.nan])
    for ours, theirs in ((xp.softmax, torch.softmax), (xp.log_softmax, torch.log_softmax)):
        for row in ([x[0], x[0]], [x[0], 1], [np.inf, 1], [x[3], 1]):
            wanted = theirs(torch.tensor(row, dtype=torch.float32), -1).numpy()
            np.testing.assert_allclose(ours(xp.asarray(np.float32(row))).numpy(), wanted)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_of_nothing_is_nothing(shape, axis):
    x = xp.zeros(shape)
    np.testing.assert_equal(xp.softmax(x, axis=axis).numpy().shape, shape)
    np.testing.assert_equal(xp.log_softmax(x, axis=axis).numpy().shape, shape)
