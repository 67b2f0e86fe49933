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


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_of_nothing_is_nothing(shape, axis):
    x = xp.zeros(shape)
    np.testing.assert_equal(xp.softmax(x, axis=axis).numpy().shape, shape)
    np.testing.assert_equal(xp.log_softmax(x, axis=axis).numpy().shape, shape)
