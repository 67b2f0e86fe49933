"""Programs for tinygrad, each with what numpy computes. Runs in tinygrad's environment."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tinygrad import Tensor, TinyJit, dtypes

RNG = np.random.default_rng(12)
Result = tuple[np.ndarray, np.ndarray, float]
"""What tinygrad computed, what numpy did, and the largest relative error that is allowed."""


def _floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def add() -> Result:
    a = np.arange(1000, dtype=np.int32)
    return (Tensor(a) + 1).numpy(), a + 1, 0.0


def matmul() -> Result:
    a, b = _floats(64, 64), _floats(64, 64)
    return (Tensor(a) @ Tensor(b)).numpy(), a.astype(np.float64) @ b, 1e-4


def matmul_large() -> Result:
    a, b = _floats(192, 160), _floats(160, 128)
    return (Tensor(a) @ Tensor(b)).numpy(), a.astype(np.float64) @ b, 1e-4


def matmul_half() -> Result:
    a, b = _floats(64, 64).astype(np.float16), _floats(64, 64).astype(np.float16)
    found = Tensor(a).matmul(Tensor(b), dtype=dtypes.float).numpy()
    return found, a.astype(np.float64) @ b.astype(np.float64), 1e-3


def total() -> Result:
    a = np.arange(10_000, dtype=np.float32)
    return Tensor(a).sum().numpy(), a.sum(dtype=np.float64), 1e-5


def softmax() -> Result:
    a = _floats(32, 100)
    e = np.exp(a.astype(np.float64) - a.max(axis=1, keepdims=True))
    return Tensor(a).softmax(axis=1).numpy(), e / e.sum(axis=1, keepdims=True), 1e-4


def transcendental() -> Result:
    a = np.abs(_floats(500)) + 0.1
    want = np.sin(a.astype(np.float64)) + np.sqrt(a) * np.log2(a)
    return (Tensor(a).sin() + Tensor(a).sqrt() * Tensor(a).log2()).numpy(), want, 1e-4


def convolution() -> Result:
    image, kernel = _floats(1, 2, 12, 12), _floats(3, 2, 3, 3)
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), (3, 3), (2, 3))
    want = np.einsum("nchwij,ocij->nohw", windows, kernel)
    return Tensor(image).conv2d(Tensor(kernel)).numpy(), want, 1e-4


def argmax() -> Result:
    a = _floats(16, 50)
    return Tensor(a).argmax(axis=1).numpy(), a.argmax(axis=1), 0.0


def cumulative() -> Result:
    a = RNG.integers(-9, 9, 300).astype(np.int32)
    return Tensor(a).cumsum().numpy(), a.cumsum(), 0.0


def gather() -> Result:
    a, index = _floats(20, 8), RNG.integers(0, 20, 40).astype(np.int32)
    return Tensor(a)[Tensor(index)].numpy(), a[index], 0.0


def select() -> Result:
    a, b = _floats(400), _floats(400)
    found = (Tensor(a) > Tensor(b)).where(Tensor(a) * 100, Tensor(b)).cast(dtypes.int)
    return found.numpy(), np.where(a > b, a * np.float32(100), b).astype(np.int32), 0.0


def transposed_copy() -> Result:
    a = RNG.integers(0, 255, (96, 80)).astype(np.uint8)
    return Tensor(a).T.contiguous().numpy(), a.T, 0.0


def copies() -> Result:
    a = RNG.integers(0, 1 << 32, 1 << 18, dtype=np.uint32)
    return Tensor(a).numpy(), a, 0.0


def replayed() -> Result:
    """A recorded graph of tinygrad's, replayed."""
    step = TinyJit(lambda x, y: (x * y + 1).realize())
    found, want = [], []
    for _ in range(5):
        x, y = _floats(256), _floats(256)
        found.append(step(Tensor(x).realize(), Tensor(y).realize()).numpy())
        want.append(x.astype(np.float64) * y + 1)
    return np.stack(found), np.stack(want), 1e-5


PROGRAMS: dict[str, Callable[[], Result]] = {
    one.__name__: one
    for one in (
        add, matmul, matmul_large, matmul_half, total, softmax, transcendental, convolution,
        argmax, cumulative, gather, select, transposed_copy, copies, replayed,
    )
}  # fmt: skip
