"""IEEE 754-2019 minima (gfx12), floats in scalar registers (gfx11.5 and gfx12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boards.amd.isa import float_ops
from boards.amd.isa.convert_ops import to_integer
from boards.amd.isa.scalar_ops import SCALAR, ScalarOp
from boards.amd.isa.vector_ops import OPS, define

Array = NDArray[Any]
_FLOATS = ("f16", "f32", "f64")


def minimum(a: Array, b: Array) -> Array:
    """The smaller one, -0 below +0; NaN if either is."""
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), float_ops.minimum(a, b))


def maximum(a: Array, b: Array) -> Array:
    """The larger one, +0 above -0; NaN if either is."""
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), float_ops.maximum(a, b))


def _propagating(kind: str) -> None:
    define(
        f"{kind} {kind} -> {kind}",
        **{f"v_minimum_{kind}": minimum, f"v_maximum_{kind}": maximum},
    )
    define(
        f"{kind} {kind} {kind} -> {kind}",
        **{
            f"v_minimum3_{kind}": lambda a, b, c: minimum(minimum(a, b), c),
            f"v_maximum3_{kind}": lambda a, b, c: maximum(maximum(a, b), c),
            f"v_minimummaximum_{kind}": lambda a, b, c: maximum(minimum(a, b), c),
            f"v_maximumminimum_{kind}": lambda a, b, c: minimum(maximum(a, b), c),
        },
    )


def _scalar(sources: str, result: str, scc: str = "", /, **functions: Callable[..., Any]) -> None:
    for name, function in functions.items():
        SCALAR[name] = ScalarOp(tuple(sources.split()), result, function, scc)


def _scalar_floats(kind: str) -> None:
    """Those that have a vector twin compute the same."""
    two = ("add", "sub", "mul", "min", "max", "minimum", "maximum")
    for name in two:
        _scalar(f"{kind} {kind}", kind, **{f"s_{name}_{kind}": OPS[f"v_{name}_{kind}"].function})
    for name in ("ceil", "floor", "trunc", "rndne"):
        _scalar(kind, kind, **{f"s_{name}_{kind}": OPS[f"v_{name}_{kind}"].function})
    for condition in ("lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle",
                      "neq", "nlt"):  # fmt: skip
        name = f"cmp_{condition}_{kind}"
        _scalar(f"{kind} {kind}", kind, "only", **{f"s_{name}": OPS[f"v_{name}"].function})
    fma = OPS[f"v_fma_{kind}"].function
    SCALAR[f"s_fmac_{kind}"] = ScalarOp((kind,) * 3, kind, fma, accumulate=True)
    if kind == "f32":
        _scalar("f32 f32 f32", "f32", s_fmaak_f32=fma, s_fmamk_f32=fma)


def _scalar_conversions() -> None:
    _scalar("i32", "f32", s_cvt_f32_i32=lambda a: a.astype(np.float32))
    _scalar("u32", "f32", s_cvt_f32_u32=lambda a: a.astype(np.float32))
    _scalar("f32", "i32", s_cvt_i32_f32=lambda a: to_integer(a, "i32"))
    _scalar("f32", "u32", s_cvt_u32_f32=lambda a: to_integer(a, "u32"))
    _scalar("f32", "f16", s_cvt_f16_f32=lambda a: a.astype(np.float16))
    _scalar("f16", "f32", s_cvt_f32_f16=lambda a: a.astype(np.float32))
    _scalar("u32", "f32", s_cvt_hi_f32_f16=_high_half)
    pack = OPS["v_cvt_pk_rtz_f16_f32"].function
    _scalar("f32 f32", "u32", s_cvt_pk_rtz_f16_f32=pack)


def _high_half(a: Array) -> Array:
    return (a >> np.uint32(16)).astype(np.uint16).view(np.float16).astype(np.float32)


for _kind in _FLOATS:
    _propagating(_kind)
for _kind in ("f16", "f32"):
    _scalar_floats(_kind)
_scalar_conversions()
