"""Programs of the tensor layer with numpy's answers: what every board must compute.

A program takes `put` (an array as a tensor on the board) and yields cases: the operation, its
result, what numpy says, and, for sums, the sum of the magnitudes of what was added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensor as xp
from compilers import dtype as dt
from tests.oracle import round_bfloat16
from tests.support import check

Array = np.ndarray[Any, Any]
Put = Callable[..., xp.Tensor]

TOLERANCES: dict[str, tuple[float, str]] = {
    "exact": (
        0,
        "no rounding, or one that IEEE 754 defines: + - * / sqrt, casts, everything whole",
    ),
    "function": (4, "exp, sin, pow ...: the expansions of compilers/math/expand.py, as on the CPU"),
    "sum": (1, "additions in any order: half a unit of the sum of magnitudes for each, plus one"),
    "norm": (16, "a sum, a division and a function, one after the other"),
}
"""Kind of operation -> units in the last place it may be off, and why."""
EXACT = (
    "abs", "ceil", "floor", "isfinite", "isinf", "isnan", "negative", "positive", "reciprocal",
    "sign", "signbit", "sqrt", "square", "trunc",
)  # fmt: skip
EXACT_PAIRS = (
    "add", "copysign", "divide", "floor_divide", "greater", "less_equal", "maximum", "minimum",
    "multiply", "nextafter", "not_equal", "remainder", "subtract",
)  # fmt: skip
ANYWHERE = {name: name for name in ("cos", "cosh", "exp", "exp2", "expm1", "sin", "sinh", "tan")}
ANYWHERE |= {"asinh": "arcsinh", "atan": "arctan", "tanh": "tanh"}
INSIDE = {"acos": "arccos", "asin": "arcsin", "atanh": "arctanh"}
ABOVE = {"acosh": "arccosh", "log": "log", "log1p": "log1p", "log2": "log2", "log10": "log10"}
"""Functions that are expanded, ours -> numpy's: of any number, of (-1, 1), of [1, inf)."""
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
SMALLEST = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 5e-324}


@dataclass(frozen=True)
class Case:
    """One result; `magnitude` and `terms` say what a sum was made of."""

    name: str
    got: xp.Tensor
    want: Any
    kind: str = "exact"
    magnitude: Any = 0.0
    terms: int = 0

    def judge(self) -> None:
        """Compare. Raises: AssertionError with the operation's name."""
        want, name = np.asarray(self.want), self.got.dtype.name
        found = values(self.got)
        check(found.shape == want.shape, f"{self.name}: shape {found.shape}, not {want.shape}")
        if name not in EPSILON or self.kind == "exact":
            np.testing.assert_array_equal(found, want, err_msg=self.name)
            return
        with np.errstate(all="ignore"):
            wide = want.astype(np.float64)
            unit = np.maximum(np.abs(wide) * EPSILON[name], SMALLEST[name])
            near = TOLERANCES[self.kind][0] * unit
            near = near + np.asarray(self.magnitude) * self.terms * EPSILON["float32"] / 2
            error = np.abs(found.astype(np.float64) - wide)
        bad = ~((error <= near) | (found == want) | (np.isnan(found) & np.isnan(wide)))
        check(not bad.any(), f"{self.name}: {found[bad][:3]}, not {want[bad][:3]}")


def values(x: xp.Tensor) -> Array:
    """A tensor's elements; bfloat16 as float32."""
    return xp.astype(x, xp.float32).numpy() if x.dtype is dt.bfloat16 else x.numpy()


def numbers(seed: int, *shape: int) -> Array:
    """float32 between -2 and 2, no two alike to the eye."""
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def whole(seed: int, dtype: str, *shape: int) -> Array:
    """Small whole numbers: sums of them are exact in any order."""
    low = 0 if dtype.startswith("uint") else -9
    return np.random.default_rng(seed).integers(low, 10, shape).astype(dtype)


def functions(put: Put) -> Iterator[Case]:
    """Every function of one and of two numbers, in float32."""
    a, b = numbers(1, 53), numbers(2, 53)
    x, y = put(a), put(b)
    exact = (
        "abs ceil floor isfinite isinf isnan negative positive reciprocal sign signbit sqrt square"
    )
    for name in f"{exact} trunc".split():
        with np.errstate(invalid="ignore"):
            yield Case(name, getattr(xp, name)(x), getattr(np, name)(a))
    for name, theirs in {**ANYWHERE, **INSIDE, **ABOVE}.items():
        given = a / 2 if name in INSIDE else np.abs(a) + 1 if name in ABOVE else a
        yield Case(name, getattr(xp, name)(put(given)), getattr(np, theirs)(given), "function")
    yield Case("round", xp.round(x), np.round(a))
    for name in EXACT_PAIRS:
        yield Case(name, getattr(xp, name)(x, y), getattr(np, name)(a, b))
    yield Case("atan2", xp.atan2(x, y), np.arctan2(a, b), "function")
    yield Case("hypot", xp.hypot(x, y), np.hypot(a, b), "function")
    yield Case("logaddexp", xp.logaddexp(x, y), np.logaddexp(a, b), "function")
    yield Case("pow", xp.pow(xp.abs(x), y), np.power(np.abs(a), b), "function")
    yield Case("clip", xp.clip(x, -1.0, 0.5), np.clip(a, -1, np.float32(0.5)))
    yield Case("where", xp.where(x < y, x, 2.0), np.where(a < b, a, np.float32(2)))


def dtypes(put: Put) -> Iterator[Case]:
    """Arithmetic in every dtype, on counts that no vector divides, and casts between them."""
    for number, name in enumerate(FLOATS):
        a, b = whole(3, "float32", 47), np.abs(whole(4, "float32", 47)) + 1
        x, y = (put(v, dtype=getattr(xp, name)) for v in (a, b))
        kind = np.float64 if name == "float64" else np.float16 if name == "float16" else np.float32
        ratio = a.astype(kind) / b.astype(kind)
        yield Case(f"divide {name}", x / y, round_bfloat16(ratio) if name == "bfloat16" else ratio)
        yield Case(f"fused {name}", (x * y - 3) * 0.5, (a * b - 3) * 0.5)
        yield Case(
            f"{name} to {FLOATS[number - 1]}", xp.astype(x, getattr(xp, FLOATS[number - 1])), a
        )
        yield Case(f"{name} to int16", xp.astype(x, xp.int16), a.astype(np.int16))
    for name in INTEGERS:
        a, b = whole(5, name, 47), whole(6, name, 47) % 5 + 1
        x, y = put(a), put(b)
        yield Case(f"fused {name}", (x + y) * 3 - y, (a + b) * 3 - b)
        yield Case(f"remainder {name}", x % y, a % b)
        yield Case(f"bits {name}", (x ^ y) & (x | 5), (a ^ b) & (a | 5))
        yield Case(f"shift {name}", x << y, a << b)
        yield Case(f"{name} to float64", xp.astype(x, xp.float64), a.astype(np.float64))
    truth = whole(7, "int8", 47) > 0
    yield Case("not bool", ~put(truth), ~truth)
    exact = np.arange(48, dtype=np.float64)
    yield Case("exp float64", xp.exp(put(exact / 7)), np.exp(exact / 7), "function")
    yield Case("sin float64", xp.sin(put(exact / 7)), np.sin(exact / 7), "function")


def products(put: Put) -> Iterator[Case]:
    """Matrix products of many shapes and dtypes, einsum, convolution."""
    shapes = [
        (1, 7, 5),
        (1, 70, 90),
        (5, 90, 72),
        (16, 16, 16),
        (33, 65, 17),
        (64, 128, 64),
        (130, 40, 70),
    ]
    for name in ("float32", "float16", "bfloat16"):
        for m, k, n in shapes:
            a, b = whole(m, "float32", m, k), whole(n, "float32", k, n)
            got = put(a, dtype=getattr(xp, name)) @ put(b, dtype=getattr(xp, name))
            want = a @ b  # whole numbers: exact in float32, rounded once to the result
            if name != "float32":
                want = round_bfloat16(want) if name == "bfloat16" else want.astype(np.float16)
            yield Case(f"matmul {name} {m} {k} {n}", got, want)
    a, b = whole(23, "float32", 2, 66), whole(24, "int8", 66, 200)
    powers = np.exp2(whole(25, "float32", 200) % 3)
    scaled = xp.astype(put(b), xp.float16) * put(powers, dtype=xp.float16)
    want = (a @ (b * powers)).astype(np.float16)
    yield Case("int8 with scales", put(a, dtype=xp.float16) @ scaled, want)
    a, b = numbers(8, 3, 20, 40), numbers(9, 3, 40, 24)
    wide = a.astype(np.float64), b.astype(np.float64)
    got = put(a) @ put(b)
    yield Case("batched", got, wide[0] @ wide[1], "sum", np.abs(wide[0]) @ np.abs(wide[1]), 40)
    a, b = whole(10, "int32", 20, 12), whole(11, "int32", 12, 9)
    yield Case("matmul int32", put(a) @ put(b), a @ b)
    a, b = whole(12, "float32", 4, 5, 6), whole(13, "float32", 6, 4)
    text = "abc,ca->bc"
    yield Case("einsum", xp.einsum(text, put(a), put(b)), np.einsum(text, a, b))
    picture, kernel = whole(14, "float32", 1, 2, 9, 9), whole(15, "float32", 3, 2, 3, 3)
    windows = np.lib.stride_tricks.sliding_window_view(picture, (3, 3), axis=(2, 3))
    want = np.einsum("nchwij,ocij->nohw", windows, kernel)
    yield Case("conv2d", xp.nn.conv2d(put(picture), put(kernel)), want)


def reductions(put: Put) -> Iterator[Case]:
    """Sums, extremes and places of them along every axis, short and long."""
    for shape in ((5, 7), (3, 700), (700, 3), (2, 33, 65)):
        a = whole(16, "float32", *shape)
        x = put(a)
        for axis in (None, *range(len(shape))):
            yield Case(f"sum {shape} {axis}", xp.sum(x, axis=axis), a.sum(axis))
        yield Case(f"max {shape}", xp.max(x, axis=-1), a.max(-1))
        yield Case(f"argmin {shape}", xp.argmin(x, axis=0), a.argmin(0))
        yield Case(f"cumulative_sum {shape}", xp.cumulative_sum(x, axis=-1), a.cumsum(-1))
    for name in ("int8", "uint16", "int64", "float16", "float64"):
        a = whole(17, name, 4, 40)
        yield Case(f"sum {name}", xp.sum(put(a), axis=0, dtype=xp.float64), a.sum(0, np.float64))
        yield Case(f"min {name}", xp.min(put(a), axis=1), a.min(1))
        total = xp.cumulative_sum(put(a), axis=1, dtype=xp.float64)
        yield Case(f"cumulative_sum {name}", total, a.cumsum(1, np.float64))
    for name in ("int8", "int16"):
        a = whole(17, name, 100)
        yield Case(f"cumulative_sum of 100 {name}", xp.cumulative_sum(put(a)), a.cumsum())
    a = numbers(18, 6, 300)
    wide = a.astype(np.float64)
    yield Case("mean", xp.mean(put(a), axis=1), wide.mean(1), "sum", np.abs(wide).mean(1), 300)
    yield Case("var", xp.var(put(a), axis=1), wide.var(1), "norm", 4.0, 16)
    yield Case("any", xp.any(put(a) > 1.9, axis=1), (a > 1.9).any(1))


def neural(put: Put) -> Iterator[Case]:
    """What networks are made of."""
    a = numbers(19, 6, 96)
    x, wide = put(a), a.astype(np.float64)
    powers = np.exp(wide - wide.max(1, keepdims=True))
    yield Case("softmax", xp.nn.softmax(x), powers / powers.sum(1, keepdims=True), "norm")
    centred = wide - wide.mean(1, keepdims=True)
    want = centred / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    yield Case("layer_norm", xp.nn.layer_norm(x), want, "norm", 4.0, 8)
    yield Case("relu", xp.nn.relu(x), np.maximum(a, 0))
    yield Case("silu", xp.nn.silu(x), wide / (1 + np.exp(-wide)), "norm")
    half = a.astype(np.float16)
    wide = half.astype(np.float64)
    powers = np.exp(wide - wide.max(1, keepdims=True))
    want = powers / powers.sum(1, keepdims=True)
    yield Case("softmax float16", xp.nn.softmax(put(half)), want, "function")


def movement(put: Put) -> Iterator[Case]:
    """Elements at other places: slices at odd bytes, gathers, sorts."""
    for name in ("int8", "float16", "int32", "float64"):
        a = whole(20, name, 7, 33)
        x = put(a)
        yield Case(f"slice {name}", x[1:, ::-3] + x[:-1, 1:12], a[1:, ::-3] + a[:-1, 1:12])
        yield Case(f"transposed {name}", xp.contiguous(x.T), a.T)
        yield Case(f"concat {name}", xp.concat([x, x[2:]], axis=0), np.concatenate([a, a[2:]]))
        yield Case(f"sort {name}", xp.sort(x, axis=1), np.sort(a, axis=1))
        yield Case(f"sort {name} down", xp.sort(x, axis=0, descending=True), -np.sort(-a, axis=0))
    places = np.array([5, -1, 0, 5])
    yield Case("take", xp.take(x, put(places), axis=0), a[places])
    yield Case("argsort", xp.argsort(x, axis=1), np.argsort(a, axis=1, stable=True))
    long = np.random.default_rng(21).permutation(2000).astype(np.float32)
    yield Case("sort of 2000", xp.sort(put(long)), np.sort(long))
    wide = np.random.default_rng(22).integers(-9000, 9000, 2500).astype(np.int16)
    yield Case("sort of 2500", xp.sort(put(wide), descending=True), -np.sort(-wide))
    yield Case("roll", xp.roll(x, 3, axis=1), np.roll(a, 3, 1))
    yield Case("pad", xp.pad(x, ((1, 0), (2, 3))), np.pad(a, ((1, 0), (2, 3))))
    yield Case("tril", xp.tril(x), np.tril(a))
    a = whole(22, "int8", 4, 7)
    yield Case("roll of odd rows", xp.roll(put(a), 2, axis=0) + 1, np.roll(a, 2, 0) + np.int8(1))


PROGRAMS: dict[str, Callable[[Put], Iterator[Case]]] = {
    made.__name__: made for made in (functions, dtypes, products, reductions, neural, movement)
}
