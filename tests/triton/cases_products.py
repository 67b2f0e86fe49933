"""Products of matrices, and what is built of them, beside numpy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.triton.case import Array, Bits, Case, Wanted, brain, of_brain, of_quarter, quarter

M, N, K = 48, 80, 96
_RNG = np.random.default_rng(11)
_TILE = {"bm": 32, "bn": 32, "bk": 32}
_FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
"""src: OCP Microscaling Formats 1.0, table of E2M1"""


def _floats(*shape: int) -> Array:
    return _RNG.uniform(-2, 2, shape).astype(np.float32)


def _eighths(*shape: int) -> Array:
    """Values whose products and sums float32 holds exactly, halves and bfloat16 each of them."""
    return (_RNG.integers(-16, 17, shape) / 8).astype(np.float32)


def _matmul(
    name: str, a: Array | Bits, b: Array | Bits, wanted: Wanted, *, out: str = "float32",
    kind: str = "float32", exact: str = "ieee", relu: bool = False, group: int = 2,
) -> Case:  # fmt: skip
    constants = {**_TILE, "group": group, "kind": f"tl.{kind}", "exact": exact, "relu": relu}
    args = {"a": a, "b": b, "c": np.zeros(M * N, out), "m": M, "n": N, "k": K}
    return Case("matmul", args, {"c": wanted}, constants, (6, 1, 1), name=name)


def products() -> Iterator[Case]:
    """One product in each type."""
    a, b = _eighths(M, K), _eighths(K, N)
    exact = Wanted(a @ b)
    x, y = _floats(M, K), _floats(K, N)
    close = Wanted(x.astype(np.float64) @ y.astype(np.float64), 1e-5, 1e-4)
    yield _matmul("matmul f32", x, y, close)
    yield _matmul("matmul f16", a.astype(np.float16), b.astype(np.float16), exact)
    relu = np.where(exact.values > 0, exact.values, exact.values * 0.25)
    yield _matmul("matmul bf16", Bits("bf16", brain(a)), Bits("bf16", brain(b)), exact)
    yield _matmul("matmul f16, leaky", a.astype(np.float16), b.astype(np.float16),
                  Wanted(relu.astype(np.float16)), out="float16", relu=True)  # fmt: skip
    i, j = (_RNG.integers(-128, 128, shape, dtype=np.int8) for shape in ((M, K), (K, N)))
    whole = i.astype(np.int32) @ j.astype(np.int32)
    yield _matmul("matmul i8", i, j, Wanted(whole), out="int32", kind="int32")
    p, q = quarter(a), quarter(b)
    small = of_quarter(p).astype(np.float64) @ of_quarter(q).astype(np.float64)
    yield _matmul("matmul fp8", Bits("fp8e5", p), Bits("fp8e5", q), Wanted(small, 1e-6, 1e-6))
    d, e = _RNG.uniform(-2, 2, (M, K)), _RNG.uniform(-2, 2, (K, N))
    yield _matmul("matmul f64", d, e, Wanted(d @ e, 1e-12, 1e-12), out="float64", kind="float64")
    yield _matmul("matmul f32, one group of rows", a, b, exact, group=1)
    args = {"a": a, "b": b, "c": np.zeros(M * N, "float32"), "m": M, "n": N, "k": K}
    yield Case("persistent", args, {"c": exact}, {"programs": 2, **_TILE}, (2, 1, 1))
    u, v = _eighths(32, 128), _eighths(128, 32)
    args = {"a": u, "b": v, "c": np.zeros(1024, "float32"), "m": 32, "n": 32, "k": 128}
    constants = {"part": 32, "bm": 32, "bk": 32}
    yield Case("split", args, {"c": Wanted(u @ v)}, constants, (4, 1, 1))


def quantised() -> Iterator[Case]:
    """Weights of four bits."""
    m = 32
    a = _eighths(m, 64).astype(np.float16)
    four, scales = _RNG.integers(0, 16, (64, 64)), 2.0 ** _RNG.integers(-3, 2, (2, 64))
    packed = (four[0::2] | four[1::2] << 4).astype(np.uint8)
    weights = (four - 8) * np.repeat(scales, 32, 0)
    args = {"a": a, "packed": packed, "scales": scales.astype(np.float32),
            "c": np.zeros((m, 64), "float32"), "m": m, "n": 64, "k": 64}  # fmt: skip
    yield Case("weights_of_4_bits", args, {"c": Wanted(a.astype(np.float64) @ weights)},
               {"bm": m, "bk": 32}, (2, 1, 1))  # fmt: skip
    left, right = _RNG.integers(0, 16, (32, 128)), _RNG.integers(0, 16, (32, 128))
    sa, sb = _RNG.integers(124, 131, (2, 32, 4)).astype(np.uint8)
    values = [_FP4[side] * np.repeat(2.0 ** (scale.astype(int) - 127), 32, 1)
              for side, scale in ((left, sa), (right, sb))]  # fmt: skip
    pair = [(side[:, 0::2] | side[:, 1::2] << 4).astype(np.uint8) for side in (left, right)]
    args = {"a": pair[0], "sa": sa, "b": pair[1], "sb": sb, "c": np.zeros((32, 32), "float32")}
    yield Case("scaled", args, {"c": Wanted(values[0] @ values[1].T, 1e-6)}, {"bm": 32, "bk": 128})


def models() -> Iterator[Case]:
    """Attention and a convolution."""
    heads, length, d = 2, 64, 32
    q, k, v = (_floats(heads, length, d).astype(np.float16) for _ in range(3))
    for kind in ("f16", "f16, causal", "bf16"):
        wanted = _attention(*(_through(kind, side) for side in (q, k, v)), causal="causal" in kind)
        sides = {name: Bits("bf16", brain(side.astype(np.float32))) if "bf16" in kind else side
                 for name, side in zip("qkv", (q, k, v), strict=True)}  # fmt: skip
        near = Wanted(wanted, 2e-2, 2e-2) if "bf16" in kind else Wanted(wanted, 4e-3, 4e-3)
        args = {**sides, "c": np.zeros((heads, length, d), "float32"), "length": length}
        constants = {"scale": 0.25, "causal": "causal" in kind, "bm": 32, "bn": 32, "d": d}
        yield Case("attention", args, {"c": near}, constants, (2, heads, 1),
                   name=f"attention {kind}")  # fmt: skip
    height, width, channels, filters = 7, 9, 16, 16
    a, w = _eighths(height, width, channels), _eighths(3, 3, channels, filters)
    padded = np.pad(a, ((1, 1), (1, 1), (0, 0)))
    total = np.zeros((height, width, filters))
    for dy in range(3):
        for dx in range(3):
            total += padded[dy : dy + height, dx : dx + width] @ w[dy, dx]
    half = {"a": a.astype(np.float16), "w": w.astype(np.float16)}
    args = {**half, "c": np.zeros((height, width, filters), "float32")}
    args |= {"height": height, "width": width}
    yield Case("convolution", args, {"c": Wanted(total)},
               {"channels": channels, "filters": filters, "bm": 32}, (2, 1, 1))  # fmt: skip


def _through(kind: str, side: Array) -> Array:
    """What the kernel reads, as float64."""
    wide = of_brain(brain(side.astype(np.float32))) if "bf16" in kind else side
    return wide.astype(np.float64)


def _attention(q: Array, k: Array, v: Array, *, causal: bool) -> Array:
    scores = q @ k.transpose(0, 2, 1) * 0.25
    if causal:
        scores = np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True)) @ v
