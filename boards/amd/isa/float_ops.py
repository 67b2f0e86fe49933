"""What floating-point vector instructions compute; added to `vector_ops.OPS`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from boards.amd.isa import floats
from boards.amd.isa.vector_ops import define, pack16, round_with

Array = NDArray[Any]
_DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_FMA = {"f16": floats.fma16, "f32": floats.fma32, "f64": floats.fma64}
_TAU, _QUARTER = 6.283185307179586, 0.25


def minimum(a: Array, b: Array) -> Array:
    """IEEE minNum with -0 < +0."""
    low = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, low))


def maximum(a: Array, b: Array) -> Array:
    """IEEE maxNum with -0 < +0."""
    high = np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, high))


def _median(a: Array, b: Array, c: Array) -> Array:
    low = minimum(a, b)
    any_nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
    return np.where(any_nan, minimum(low, c), maximum(low, minimum(maximum(a, b), c)))


def _no_zero_nan(a: Array, b: Array) -> Array:
    """The product of DX9 rules: 0 times anything is +0."""
    return np.where((a == 0) | (b == 0), np.float32(0), a * b)


def _arithmetic(kind: str) -> None:
    fma = _FMA[kind]
    define(
        f"{kind} {kind} -> {kind}",
        **{
            f"v_add_{kind}": lambda a, b: a + b,
            f"v_sub_{kind}": lambda a, b: a - b,
            f"v_subrev_{kind}": lambda a, b: b - a,
            f"v_mul_{kind}": lambda a, b: a * b,
            f"v_min_{kind}": minimum,
            f"v_max_{kind}": maximum,
        },
    )
    define(
        f"{kind} {kind} {kind} -> {kind}",
        **{
            f"v_fma_{kind}": fma,
            f"v_min3_{kind}": lambda a, b, c: minimum(minimum(a, b), c),
            f"v_max3_{kind}": lambda a, b, c: maximum(maximum(a, b), c),
            f"v_med3_{kind}": _median,
            f"v_maxmin_{kind}": lambda a, b, c: minimum(maximum(a, b), c),
            f"v_minmax_{kind}": lambda a, b, c: maximum(minimum(a, b), c),
            f"v_fmamk_{kind}": fma,
            f"v_fmaak_{kind}": fma,
        },
    )
    define(f"{kind} {kind} +{kind} -> {kind}", **{f"v_fmac_{kind}": fma})


def _unary(kind: str) -> None:
    define(
        f"{kind} -> {kind}",
        **{
            f"v_rcp_{kind}": lambda a: a.dtype.type(1) / a,
            f"v_rsq_{kind}": _through64(lambda a: 1 / np.sqrt(a)),
            f"v_sqrt_{kind}": np.sqrt,
            f"v_floor_{kind}": np.floor,
            f"v_ceil_{kind}": np.ceil,
            f"v_trunc_{kind}": np.trunc,
            f"v_rndne_{kind}": np.rint,
            f"v_fract_{kind}": _fract,
            f"v_frexp_mant_{kind}": lambda a: np.where(np.isfinite(a), np.frexp(a)[0], a),
        },
    )


def _through64(function: Any) -> Any:
    """Computed in f64 and rounded once; the hardware's tables are within 1 ulp of it."""

    def apply(a: Array) -> Array:
        wide: Array = function(a.astype(np.float64))
        return wide.astype(a.dtype)

    return apply


def _fract(a: Array) -> Array:
    below_one = np.nextafter(a.dtype.type(1), a.dtype.type(0))
    part = a - np.floor(a)
    whole: Array = np.minimum(part, below_one)
    return np.where(np.isinf(a), floats.default_nan(a.dtype.type), whole)


def _transcendental(kind: str) -> None:
    define(
        f"{kind} -> {kind}",
        **{
            f"v_exp_{kind}": _through64(np.exp2),
            f"v_log_{kind}": _through64(np.log2),
            f"v_sin_{kind}": _through64(_sine),
            f"v_cos_{kind}": _through64(_cosine),
        },
    )


def _sine(turns: Array) -> Array:
    """Sine of an angle in turns, however many; exact at multiples of a quarter."""
    # src: RDNA3 and CDNA3 ISA, V_SIN_F32: full range input is supported.
    part = turns - np.rint(turns)
    part = np.where(np.abs(part) > _QUARTER, np.copysign(2 * _QUARTER, part) - part, part)
    answer: Array = np.where(turns == 0, turns, np.sin(part * _TAU))
    return np.where(np.isinf(turns), floats.default_nan(np.float64), answer)


def _cosine(turns: Array) -> Array:
    """Cosine of an angle in turns, as the sine of what is missing to a quarter."""
    near = _QUARTER - np.abs(turns - np.rint(turns))
    return _sine(np.where(np.isinf(turns), turns, near))


def _exponents() -> None:
    for kind in ("f16", "f32", "f64"):
        result = "i16" if kind == "f16" else "i32"
        define(f"{kind} -> {result}", **{f"v_frexp_exp_{result}_{kind}": _frexp_exponent(result)})
    define("f32 i32 -> f32", v_ldexp_f32=_ldexp)
    define("f64 i32 -> f64", v_ldexp_f64=_ldexp)
    define("f16 i16 -> f16", v_ldexp_f16=lambda a, b: _ldexp(a, b.astype(np.int32)))


def _frexp_exponent(result: str) -> Any:
    def apply(a: Array) -> Array:
        exponent = np.where(np.isfinite(a), np.frexp(a)[1], 0)
        return exponent.astype(np.int16 if result == "i16" else np.int32)

    return apply


def _ldexp(a: Array, b: Array) -> Array:
    """One rounding: f64 steps are exact for f32 and f16 until the last conversion."""
    count = b.clip(-5000, 5000)
    if a.dtype == np.float64:
        return np.asarray(np.ldexp(a, count))
    answer: Array = _scaled(a, count).astype(a.dtype)
    return answer


def _scaled(a: Array, count: Array) -> Array:
    """a * 2^count of an f16 or f32, exact in f64; beyond 700 steps it is out of range anyway."""
    wide: Array = np.ldexp(a.astype(np.float64), count.astype(np.int32).clip(-700, 700))
    return wide


def _special() -> None:
    define("f32 f32 -> f32", v_mul_dx9_zero_f32=_no_zero_nan)
    define("f32 f32 f32 -> f32", v_fma_dx9_zero_f32=_dx9_fma, v_mullit_f32=_lit)
    define("p p f16 -> f16", v_dot2_f16_f16=_dot2_half)
    define("p p u16 -> u16", v_dot2_bf16_bf16=_dot2_bf16_half)
    define("f32 f32 +f32 -> f32", v_fmac_dx9_zero_f32=_dx9_fma)
    define("f32 -> f32", v_rcp_iflag_f32=lambda a: np.float32(1) / a)
    define("p p f32 -> f32", v_dot2_f32_f16=_dot2, v_dot2_f32_bf16=_dot2_bf16)
    define("p p +f32 -> f32", v_dot2acc_f32_f16=_dot2, v_dot2acc_f32_bf16=_dot2_bf16)


def _directed() -> None:
    """What the rounding modes other than to nearest need."""
    for kind in _DTYPES:
        round_with(lambda a, b: (a, b), [f"v_add_{kind}"])
        round_with(lambda a, b: (a, -b), [f"v_sub_{kind}"])
        round_with(lambda a, b: (b, -a), [f"v_subrev_{kind}"])
        round_with(lambda a, b: (a * b, a * b * 0), [f"v_mul_{kind}"])
        fused = [f"v_{name}_{kind}" for name in ("fma", "fmac", "fmamk", "fmaak")]
        round_with(lambda a, b, c: (a * b, c), fused)
    for kind in ("f16", "f32"):
        round_with(lambda a, b: (_scaled(a, b), a * 0), [f"v_ldexp_{kind}"])


def _dx9_fma(a: Array, b: Array, c: Array) -> Array:
    return np.where((a == 0) | (b == 0), c, floats.fma32(a, b, c))


def halves(a: Array) -> tuple[Array, Array]:
    """The two f16 of a packed dword, as f64."""
    pair = np.ascontiguousarray(a).view(np.float16).reshape(*a.shape, 2).astype(np.float64)
    return pair[..., 0], pair[..., 1]


def bf16_halves(a: Array) -> tuple[Array, Array]:
    """The two bfloat16 of a packed dword, as f64."""
    low = (a << np.uint32(16)).view(np.float32).astype(np.float64)
    return low, (a & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


def _dot2(a: Array, b: Array, c: Array) -> Array:
    (a0, a1), (b0, b1) = halves(a), halves(b)
    return np.asarray(a0 * b0 + a1 * b1 + c, np.float32)


def _lit(a: Array, b: Array, c: Array) -> Array:
    """The product that lighting asks for: the smallest number where it has no light."""
    # src: RDNA3 and RDNA4 ISA, V_MULLIT_F32: 0 * x = 0; -MAX for S1 of -MAX, -INF or NaN, S2 <= 0
    least = -np.finfo(np.float32).max
    dark = (b <= least) | np.isnan(b) | ~(c > 0)
    return np.where(dark, least, _no_zero_nan(a, b))


def _dot2_half(a: Array, b: Array, c: Array) -> Array:
    (a0, a1), (b0, b1) = halves(a), halves(b)
    return floats.narrow16(np.asarray(a0 * b0 + a1 * b1 + c.astype(np.float64)))


def _dot2_bf16_half(a: Array, b: Array, c: Array) -> Array:
    """Of bfloat16, and rounded to it once."""
    (a0, a1), (b0, b1) = bf16_halves(a), bf16_halves(b)
    addend = (c.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return floats.bf16(np.asarray(a0 * b0 + a1 * b1 + addend, np.float32))


def _dot2_bf16(a: Array, b: Array, c: Array) -> Array:
    (a0, a1), (b0, b1) = bf16_halves(a), bf16_halves(b)
    return np.asarray(a0 * b0 + a1 * b1 + c, np.float32)


def _packed() -> None:
    define("f32 f32 -> p", v_cvt_pk_rtz_f16_f32=lambda a, b: pack16(_rtz16(a), _rtz16(b)))


def _rtz16(a: Array) -> Array:
    near = a.astype(np.float16)
    over = np.abs(near.astype(np.float32)) > np.abs(a)
    toward_zero = np.nextafter(near, np.float16(0))
    return np.where(over & ~np.isnan(a) & ~np.isinf(a), toward_zero, near)


for _kind in _DTYPES:
    _arithmetic(_kind)
    _unary(_kind)
for _kind in ("f16", "f32"):
    _transcendental(_kind)
for _install in (_exponents, _special, _packed, _directed):
    _install()
