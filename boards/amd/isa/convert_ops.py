"""Conversions, compares and the division helpers; added to `vector_ops.OPS`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from boards.amd.isa import floats
from boards.amd.isa.vector_ops import define, pack16, round_with

Array = NDArray[Any]
_TYPES: dict[str, Any] = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "i16": np.int16, "u16": np.uint16,
    "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64,
}  # fmt: skip


def to_integer(a: Array, kind: str) -> Array:
    """Toward zero, saturating, NaN gives 0."""
    info = np.iinfo(_TYPES[kind])
    wide = np.trunc(a.astype(np.float64))
    limited = np.where(np.isnan(wide), 0, wide).clip(info.min, info.max)
    return limited.astype(np.int64).astype(_TYPES[kind])


def _conversions() -> None:
    for source in ("f16", "f32", "f64"):
        for target in ("i16", "u16") if source == "f16" else ("i32", "u32"):
            define(
                f"{source} -> {target}",
                **{f"v_cvt_{target}_{source}": lambda a, t=target: to_integer(a, t)},
            )
            define(
                f"{target} -> {source}",
                **{f"v_cvt_{source}_{target}": lambda a, s=source: a.astype(_TYPES[s])},
            )
    for source, target in (("f32", "f16"), ("f16", "f32"), ("f64", "f32"), ("f32", "f64")):
        define(
            f"{source} -> {target}",
            **{f"v_cvt_{target}_{source}": lambda a, t=target: a.astype(_TYPES[t])},
        )
    for result, sources in (("f32", ("f64", "i32", "u32")), ("f16", ("f32", "i16", "u16"))):
        round_with(lambda a: (a, a * 0), [f"v_cvt_{result}_{source}" for source in sources])
    define(
        "f32 -> i32",
        v_cvt_nearest_i32_f32=lambda a: to_integer(np.floor(a.astype(np.float64) + 0.5), "i32"),
        v_cvt_floor_i32_f32=lambda a: to_integer(np.floor(a), "i32"),
    )
    for byte in range(4):
        define(
            "u32 -> f32",
            **{f"v_cvt_f32_ubyte{byte}": lambda a, b=byte: _byte(a, b).astype(np.float32)},
        )
    define(
        "f32 f32 -> p",
        v_cvt_pk_i16_f32=lambda a, b: pack16(to_integer(a, "i16"), to_integer(b, "i16")),
        v_cvt_pk_u16_f32=lambda a, b: pack16(to_integer(a, "u16"), to_integer(b, "u16")),
    )
    for kind, scale in (("i16", 32767.0), ("u16", 65535.0)):
        for source in ("f16", "f32"):
            define(
                f"{source} {source} -> p", **{f"v_cvt_pk_norm_{kind}_{source}": _norm(kind, scale)}
            )
    define("f32 u32 u32 -> u32", v_cvt_pk_u8_f32=_pack_u8)


def _byte(a: Array, number: int) -> Array:
    return a >> np.uint32(8 * number) & np.uint32(0xFF)


def _norm(kind: str, scale: float) -> Any:
    low = -1.0 if kind == "i16" else 0.0

    def one(a: Array) -> Array:
        return to_integer(np.rint(a.astype(np.float64).clip(low, 1.0) * scale), kind)

    return lambda a, b: pack16(one(a), one(b))


def _pack_u8(a: Array, position: Array, old: Array) -> Array:
    value = np.rint(np.where(np.isnan(a), 0, a)).clip(0, 255).astype(np.uint32)
    low = (position & np.uint32(3)) * np.uint32(8)
    answer: Array = (old & ~(np.uint32(0xFF) << low)) | value << low
    return answer


_CONDITIONS: dict[str, Any] = {
    "f": lambda a, b: np.zeros(np.broadcast_shapes(a.shape, b.shape), np.bool_),
    "t": lambda a, b: np.ones(np.broadcast_shapes(a.shape, b.shape), np.bool_),
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ne": lambda a, b: a != b,
    "lg": lambda a, b: (a < b) | (a > b),
    "ge": lambda a, b: a >= b,
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
}
_FLOAT_ONLY = frozenset({"lg", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt"})


def _compares() -> None:
    for kind in _TYPES:
        for condition, function in _CONDITIONS.items():
            if kind[0] == "f" and condition == "ne":
                continue
            if kind[0] != "f" and condition in _FLOAT_ONLY:
                continue
            for prefix in ("v_cmp", "v_cmpx"):
                define(f"{kind} {kind} -> m", **{f"{prefix}_{condition}_{kind}": function})
        if kind[0] == "f":
            for prefix in ("v_cmp", "v_cmpx"):
                define(f"{kind} u32 -> m", **{f"{prefix}_class_{kind}": classify})


def classify(a: Array, mask: Array) -> Array:
    """v_cmp_class: bits sNaN qNaN -inf -normal -denormal -0 +0 +denormal +normal +inf."""
    # src: RDNA3 ISA, V_CMP_CLASS_F32.
    info = np.finfo(a.dtype)
    raw = np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}")
    quiet = (raw >> raw.dtype.type(info.nmant - 1) & raw.dtype.type(1)).astype(np.bool_)
    size = np.abs(a)
    rank = np.select(
        [size == np.inf, size >= info.tiny, size > 0], [0, 1, 2], default=3
    )  # infinite, normal, denormal, zero
    number = np.where(np.signbit(a), 2 + rank, 9 - rank)
    number = np.where(np.isnan(a), np.where(quiet, 1, 0), number)
    return (mask >> number.astype(np.uint32) & np.uint32(1)).astype(np.bool_)


def _division() -> None:
    for kind in ("f32", "f64"):
        define(f"{kind} {kind} {kind} -> {kind} m", **{f"v_div_scale_{kind}": _div_scale})
        define(f"{kind} {kind} {kind} m -> {kind}", **{f"v_div_fmas_{kind}": _div_fmas})
    for kind in ("f16", "f32", "f64"):
        define(f"{kind} {kind} {kind} -> {kind}", **{f"v_div_fixup_{kind}": _div_fixup})


def _limits(kind: Any) -> tuple[int, int, int]:
    """Scale of div_scale, exponent gap that needs it, largest exponent that is too small."""
    return (64, 96, 24) if kind == np.float32 else (128, 768, 53)


def _exponent(a: Array) -> Array:
    """The biased exponent field."""
    info = np.finfo(a.dtype)
    raw = np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}")
    mask = raw.dtype.type((1 << info.nexp) - 1)
    answer: Array = (raw >> raw.dtype.type(info.nmant) & mask).astype(np.int64)
    return answer


def _div_scale(value: Array, denominator: Array, numerator: Array) -> tuple[Array, Array]:
    """Bring a division into range; the mask says that div_fmas must undo it."""
    # src: AMD's simulator rocjitsu, division.h, checked on gfx1100 and gfx1201: exponents decide,
    # for zeros too. The pseudo code of the ISA manuals compares quotients and differs.
    kind = value.dtype.type
    scale, gap, low = _limits(kind)
    en, ed = _exponent(numerator), _exponent(denominator)
    of_denominator = value == denominator
    above, below = en - ed >= gap, en - ed <= -gap
    steps: list[tuple[Array, Any]] = [
        (above, np.where(of_denominator, scale, 0)),
        (ed == 0, scale),
        (ed >= 2 * np.finfo(kind).maxexp - 3, np.where(below & ~of_denominator, 0, -scale)),
        (below, np.where(of_denominator, 0, scale)),
        (en <= low, scale),
    ]
    count: Array = np.select([case for case, _ in steps], [step for _, step in steps], 0)
    zero = (denominator == 0) | (numerator == 0)
    result = np.where(zero, floats.default_nan(kind), np.ldexp(value, count))
    return result, above | below


def _div_fmas(a: Array, b: Array, c: Array, scaled: Array) -> Array:
    """fma, scaled back by 2^64 (2^128 for f64), up or down, where div_scale asked for it.

    One rounding in all: quotients that are denormal come out as IEEE 754 asks.
    """
    kind = a.dtype.type
    shift = _limits(kind)[0]
    a, b, c, scaled = np.broadcast_arrays(a, b, c, scaled)
    direction = np.where(_exponent(c) > np.finfo(kind).maxexp - 1, shift, -shift)
    count = np.where(scaled, direction, 0)
    if kind == np.float64:
        return floats.fma64_scaled(a, b, c, count)
    exact, error = floats.two_sum(np.multiply(a, b, dtype=np.float64), c.astype(np.float64))
    return np.ldexp(floats.to_odd(exact, error), count).astype(np.float32)


def _div_fixup(quotient: Array, denominator: Array, numerator: Array) -> Array:
    """The special cases of a division around an approximate quotient."""
    # src: RDNA3 ISA, V_DIV_FIXUP_F32 and _F64; V_DIV_FIXUP_F16 has no rule for underflow.
    kind = quotient.dtype.type
    q, d, n = np.broadcast_arrays(quotient, denominator, numerator)
    sign = np.signbit(d) ^ np.signbit(n)
    infinite, nothing = kind(np.inf), kind(0)
    size = np.where(np.isnan(q), infinite, np.abs(q))
    if kind != np.float16:
        info = np.finfo(kind)
        size = np.where(_exponent(n) - _exponent(d) < 1 - info.maxexp - info.nmant, nothing, size)
    size = np.where((np.abs(n) == np.inf) | (d == 0), infinite, size)
    size = np.where((np.abs(d) == np.inf) | (n == 0), nothing, size)
    invalid = ((d == 0) & (n == 0)) | ((np.abs(d) == np.inf) & (np.abs(n) == np.inf))
    result = np.copysign(size, np.where(sign, kind(-1), kind(1)))
    result = np.where(invalid, floats.default_nan(kind), result)
    return np.where(np.isnan(n), n, np.where(np.isnan(d), d, result))


for _install in (_conversions, _compares, _division):
    _install()
