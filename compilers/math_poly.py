"""Vectorisable float32 functions: within 2 units in the last place, special cases as in C Annex F.

Polynomials are minimax fits of their own range; `fused` tells whether the target has fma, without
which each step rounds twice and the split constants still multiply exactly.
"""

from __future__ import annotations

from collections.abc import Callable

from compilers import dtype as dt
from compilers.ir import Expr
from compilers.math_build import bitcast, bits, const, either, is_nan, like, mad, op, poly, where
from compilers.math_trig import cosine, sine, tangent

U32, I32 = dt.uint32, dt.int32
MANTISSA = 23
BIAS = 127
MAGIC = 1.5 * 2.0**23
"""Added to a small float32, it leaves the nearest integer in the low mantissa bits."""
LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693359375, -2.1219444005469057e-4
EXP = (0.5, 0.16666513681411743, 0.04166640341281891, 0.008369527757167816, 0.001394060323946178)
"""(exp(r) - 1 - r) / r**2 for |r| <= ln(2) / 2."""
EXP2 = (0.6931471824645996, 0.24022650718688965, 0.05550359562039375, 0.009618062525987625,
        0.0013390984386205673, 0.000154628767631948)  # fmt: skip
"""(2**r - 1) / r for |r| <= 1/2."""
LOG = (0.33333316445350647, -0.25000810623168945, 0.20002301037311554, -0.16624557971954346,
       0.14180947840213776, -0.13128504157066345, 0.12882941961288452,
       -0.07861663401126862)  # fmt: skip
"""(log(1 + f) - f + f**2 / 2) / f**3 for sqrt(1/2) <= 1 + f <= sqrt(2)."""
TANH = (-0.3333328366279602, 0.13331486284732819, -0.05374317243695259, 0.020649708807468414,
        -0.0057162027806043625)  # fmt: skip
"""(tanh(x) - x) / x**3 in x**2, for |x| <= TANH_SMALL."""
TANH_SMALL = 0.625
ERF_SMALL = (0.12837916612625122, -0.3761262893676758, 0.11283624172210693,
             -0.02685558795928955, 0.005191947799175978, -0.0008043839479796588,
             7.969663420226425e-05)  # fmt: skip
"""erf(x) / x - 1 in x**2, for |x| <= ERF_EDGE."""
ERF_LARGE = (0.00017055368516594172, -1.1294951438903809, -0.6333867311477661,
             -0.10823646187782288, 0.025091353803873062, -0.004160459153354168,
             0.0004322869936004281, -2.0908079022774473e-05)  # fmt: skip
"""log(1 - erf(t)) for ERF_EDGE <= t <= ERF_END."""
ERF_EDGE, ERF_END = 0.93, 4.0
EXP_LOW, EXP_HIGH = -104.0, 89.0
EXP2_LOW, EXP2_HIGH = -151.0, 129.0
EXPM1_LOW = -20.0
HALF_SQRT2_BITS = 0x3F3504F3
SMALLEST_NORMAL = 2.0**-126


def clamp(x: Expr, low: float, high: float) -> Expr:
    """NaN stays NaN."""
    lower, upper = like(x, low), like(x, high)
    x = where(op("lt", x, lower), lower, x)
    return where(op("lt", upper, x), upper, x)


def _nearest(x: Expr, factor: float, fused: bool) -> tuple[Expr, Expr]:
    """round(x * factor), and the float whose low bits hold it plus twice the exponent bias."""
    magic = like(x, MAGIC + 2 * BIAS)
    held = mad(x, like(x, factor), magic, fused) if factor != 1 else op("add", x, magic)
    return op("sub", held, magic), held


def _scale(p: Expr, held: Expr) -> Expr:
    """p * 2**n in two exact-range steps, so that denormals round once and overflow is infinity."""
    word, shift = bits(held), const(MANTISSA, U32)
    half = op("shr", word, const(1, U32))
    first = bitcast(op("shl", half, shift), dt.float32)
    second = bitcast(op("shl", op("sub", word, half), shift), dt.float32)
    return op("mul", op("mul", p, first), second)


def exp(x: Expr, fused: bool) -> Expr:
    """e**x."""
    n, held, r = _reduce(clamp(x, EXP_LOW, EXP_HIGH), fused)
    del n
    p = poly(r, (1.0, 1.0, *EXP), fused)
    return _scale(p, held)


def _reduce(x: Expr, fused: bool) -> tuple[Expr, Expr, Expr]:
    """n, its holder and r with x = n * ln(2) + r."""
    n, held = _nearest(x, LOG2_E, fused)
    r = mad(n, like(x, -LN2_HIGH), x, fused)
    return n, held, mad(n, like(x, -LN2_LOW), r, fused)


def exp2(x: Expr, fused: bool) -> Expr:
    """2**x."""
    x = clamp(x, EXP2_LOW, EXP2_HIGH)
    n, held = _nearest(x, 1, fused)
    return _scale(poly(op("sub", x, n), (1.0, *EXP2), fused), held)


def expm1(x: Expr, fused: bool) -> Expr:
    """e**x - 1: 2 * (h * (e**r - 1) + h - 1/2) with h = 2**(n - 1), exact where n is 0."""
    y = clamp(x, EXPM1_LOW, EXP_HIGH)
    n, held, r = _reduce(y, fused)
    del n
    grown = mad(op("mul", r, r), poly(r, EXP, fused), r, fused)
    word = op("sub", bits(held), const(BIAS + 1, U32))
    half = bitcast(op("shl", word, const(MANTISSA, U32)), dt.float32)
    total = mad(half, grown, op("sub", half, like(x, 0.5)), fused)
    tiny = op("lt", op("abs", x), like(x, 2.0**-25))
    return where(tiny, x, op("add", total, total))


def _split(x: Expr) -> tuple[Expr, Expr, Expr]:
    """e, m - 1 and the word of 2**-e for x = m * 2**e, m from sqrt(1/2) to sqrt(2); x normal."""
    word = bits(x)
    above = bitcast(op("sub", word, const(HALF_SQRT2_BITS, U32)), I32)
    e = op("shr", above, const(MANTISSA, I32))
    shifted = op("shl", bitcast(e, U32), const(MANTISSA, U32))
    m = bitcast(op("sub", word, shifted), dt.float32)
    return Expr("cast", dt.float32, (e,)), op("sub", m, like(m, 1.0)), shifted


def _log_tail(f: Expr, fused: bool) -> Expr:
    """log(1 + f) - f."""
    inner = mad(f, poly(f, LOG, fused), like(f, -0.5), fused)
    return op("mul", op("mul", f, f), inner)


def _log_special(x: Expr, result: Expr) -> Expr:
    """0 gives -inf, below it NaN; infinity and NaN stay."""
    infinity = like(x, float("inf"))
    result = where(op("lt", x, infinity), result, x)
    result = where(op("eq", x, like(x, 0.0)), like(x, float("-inf")), result)
    return where(op("lt", x, like(x, 0.0)), like(x, float("nan")), result)


def _normal(x: Expr) -> tuple[Expr, Expr, Expr]:
    """As `_split`, for denormals too; the word is of the scaled value."""
    small = op("lt", x, like(x, SMALLEST_NORMAL))
    scaled = where(small, op("mul", x, like(x, 2.0**MANTISSA)), x)
    e, f, word = _split(scaled)
    return op("sub", e, where(small, like(x, float(MANTISSA)), like(x, 0.0))), f, word


def _log_sum(e: Expr, f: Expr, extra: Expr, fused: bool) -> Expr:
    """e * ln(2) + log(1 + f) + extra, the largest part last."""
    low = mad(e, like(f, LN2_LOW), op("add", _log_tail(f, fused), extra), fused)
    return mad(e, like(f, LN2_HIGH), op("add", f, low), fused)


def log(x: Expr, fused: bool) -> Expr:
    """The natural logarithm."""
    e, f, _ = _normal(x)
    return _log_special(x, _log_sum(e, f, like(x, 0.0), fused))


def log2(x: Expr, fused: bool) -> Expr:
    """The binary logarithm; exact for powers of two."""
    e, f, _ = _normal(x)
    high, low = 1.4375, LOG2_E - 1.4375
    tail = mad(f, like(f, low), op("mul", _log_tail(f, fused), like(f, LOG2_E)), fused)
    return _log_special(x, op("add", e, mad(f, like(f, high), tail, fused)))


def log1p(x: Expr, fused: bool) -> Expr:
    """log(1 + x), with what the sum 1 + x lost added back."""
    one = like(x, 1.0)
    u = op("add", one, x)
    e, f, shifted = _split(u)
    of_small, of_large = op("sub", x, op("sub", u, one)), op("sub", one, op("sub", u, x))
    lost = where(op("lt", x, one), of_small, of_large)
    scale = bitcast(op("sub", const(BIAS << MANTISSA, U32), shifted), dt.float32)
    scale = where(op("lt", x, like(x, 2.0**25)), scale, like(x, 0.0))
    f = mad(lost, scale, f, fused)
    result = _log_special(u, _log_sum(e, f, like(x, 0.0), fused))
    return where(op("lt", op("abs", x), like(x, 2.0**-24)), x, result)


def tanh(x: Expr, fused: bool) -> Expr:
    """Odd polynomial near 0, else 1 - 2 / (e**2|x| + 1)."""
    size, one = op("abs", x), like(x, 1.0)
    grown = exp(op("add", size, size), fused)
    far = op("sub", one, op("div", like(x, 2.0), op("add", grown, one)))
    square = op("mul", x, x)
    near = mad(op("mul", square, x), poly(square, TANH, fused), x, fused)
    small = op("lt", size, like(x, TANH_SMALL))
    return where(either(small, is_nan(x)), op("copysign", near, x), op("copysign", far, x))


def erf(x: Expr, fused: bool) -> Expr:
    """Odd polynomial near 0, else 1 - e**q(|x|)."""
    size, square = op("abs", x), op("mul", x, x)
    t = clamp(size, 0.0, ERF_END)
    far = op("sub", like(x, 1.0), exp(poly(t, ERF_LARGE, fused), fused))
    near = mad(x, poly(square, ERF_SMALL, fused), x, fused)
    small = op("lt", size, like(x, ERF_EDGE))
    return where(either(small, is_nan(x)), op("copysign", near, x), op("copysign", far, x))


FAST: dict[str, Callable[[Expr, bool], Expr]] = {
    "exp": exp, "exp2": exp2, "expm1": expm1, "log": log, "log2": log2, "log1p": log1p,
    "tanh": tanh, "erf": erf, "sin": sine, "cos": cosine, "tan": tangent,
}  # fmt: skip
"""Function -> rewrite of (float32 argument, whether the target has fma)."""
