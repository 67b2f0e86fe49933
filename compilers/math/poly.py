"""Vectorisable float32 functions: within 2 units in the last place, special cases as in C Annex F.

Polynomials are minimax fits of their own range. On a target without fma each step rounds twice, and
the split constants still multiply exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from compilers import dtype as dt
from compilers.ir import Expr
from compilers.math.build import bitcast, bits, cast, is_nan, mad, op, poly, where
from compilers.math.trig import tangent, wave

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
"""(tanh(x) - x) / x**3 in x**2, for |x| <= TANH_EDGE."""
TANH_EDGE = 0.625
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
    x = where(op("lt", x, low), low, x)
    return where(op("lt", high, x), high, x)


def nearest(x: Expr, factor: float) -> tuple[Expr, Expr]:
    """round(x * factor), and the float whose low bits hold it plus twice the exponent bias."""
    magic = MAGIC + 2 * BIAS
    held = mad(x, factor, magic) if factor != 1 else op("add", x, magic)
    return op("sub", held, magic), held


def _reduce(x: Expr) -> tuple[Expr, Expr]:
    """r with x = n * ln(2) + r, and the float that holds n."""
    n, held = nearest(x, LOG2_E)
    return mad(n, -LN2_LOW, mad(n, -LN2_HIGH, x)), held


def _power_of_two(word: Expr) -> Expr:
    """The float32 of a biased exponent."""
    return bitcast(op("shl", word, MANTISSA), dt.float32)


def scale_by(p: Expr, held: Expr) -> Expr:
    """p * 2**n in two exact-range steps, so that denormals round once and overflow is infinity."""
    word = bits(held)
    half = op("shr", word, 1)
    return op("mul", op("mul", p, _power_of_two(half)), _power_of_two(op("sub", word, half)))


def exp(x: Expr) -> Expr:
    """e**x."""
    r, held = _reduce(clamp(x, EXP_LOW, EXP_HIGH))
    return scale_by(poly(r, (1.0, 1.0, *EXP)), held)


def exp2(x: Expr) -> Expr:
    """2**x."""
    x = clamp(x, EXP2_LOW, EXP2_HIGH)
    n, held = nearest(x, 1)
    return scale_by(poly(op("sub", x, n), (1.0, *EXP2)), held)


def expm1(x: Expr) -> Expr:
    """e**x - 1: 2 * (h * (e**r - 1) + h - 1/2) with h = 2**(n - 1), exact where n is 0."""
    r, held = _reduce(clamp(x, EXPM1_LOW, EXP_HIGH))
    grown = mad(op("mul", r, r), poly(r, EXP), r)
    half = _power_of_two(op("sub", bits(held), BIAS + 1))
    total = mad(half, grown, op("sub", half, 0.5))
    return where(op("lt", op("abs", x), 2.0**-25), x, op("add", total, total))


def _split(x: Expr) -> tuple[Expr, Expr, Expr]:
    """e, m - 1 and the word of 2**-e for x = m * 2**e, m from sqrt(1/2) to sqrt(2); x normal."""
    word = bits(x)
    e = op("shr", bitcast(op("sub", word, HALF_SQRT2_BITS), dt.int32), MANTISSA)
    shifted = op("shl", bits(e), MANTISSA)
    m = bitcast(op("sub", word, shifted), dt.float32)
    return cast(e, dt.float32), op("sub", m, 1.0), shifted


def _log_tail(f: Expr) -> Expr:
    """log(1 + f) - f."""
    return op("mul", op("mul", f, f), mad(f, poly(f, LOG), -0.5))


def _log_special(x: Expr, result: Expr) -> Expr:
    """0 gives -inf, below it NaN; infinity and NaN stay."""
    result = where(op("lt", x, float("inf")), result, x)
    result = where(op("eq", x, 0.0), float("-inf"), result)
    return where(op("lt", x, 0.0), float("nan"), result)


def split_normal(x: Expr) -> tuple[Expr, Expr]:
    """e and m - 1 as `_split`, for denormals too."""
    small = op("lt", x, SMALLEST_NORMAL)
    e, f, _ = _split(where(small, op("mul", x, 2.0**MANTISSA), x))
    return where(small, op("sub", e, float(MANTISSA)), e), f


def _log_sum(e: Expr, f: Expr) -> Expr:
    """e * ln(2) + log(1 + f), the largest part last."""
    return mad(e, LN2_HIGH, op("add", f, mad(e, LN2_LOW, _log_tail(f))))


def log(x: Expr) -> Expr:
    """The natural logarithm."""
    return _log_special(x, _log_sum(*split_normal(x)))


def log2(x: Expr) -> Expr:
    """The binary logarithm; exact for powers of two."""
    e, f = split_normal(x)
    high, low = 1.4375, LOG2_E - 1.4375
    tail = mad(f, low, op("mul", _log_tail(f), LOG2_E))
    return _log_special(x, op("add", e, mad(f, high, tail)))


def log1p(x: Expr) -> Expr:
    """log(1 + x), with the rounding error of 1 + x added back."""
    u = op("add", x, 1.0)
    e, f, shifted = _split(u)
    of_small, of_large = op("sub", x, op("sub", u, 1.0)), op("sub", 1.0, op("sub", u, x))
    lost = where(op("lt", x, 1.0), of_small, of_large)
    scale = bitcast(op("sub", BIAS << MANTISSA, shifted), dt.float32)
    scale = where(op("lt", x, 2.0**25), scale, 0.0)
    result = _log_special(u, _log_sum(e, mad(lost, scale, f)))
    return where(op("lt", op("abs", x), 2.0**-24), x, result)


def _odd(x: Expr, edge: float, near: Expr, far: Expr) -> Expr:
    """`near` up to the edge and for NaN, `far` beyond it, with the sign of x."""
    small = op("or", op("lt", op("abs", x), edge), is_nan(x))
    return where(small, op("copysign", near, x), op("copysign", far, x))


def tanh(x: Expr) -> Expr:
    """Odd polynomial near 0, else 1 - 2 / (e**2|x| + 1)."""
    size, square = op("abs", x), op("mul", x, x)
    far = op("sub", 1.0, op("div", 2.0, op("add", exp(op("add", size, size)), 1.0)))
    near = mad(op("mul", square, x), poly(square, TANH), x)
    return _odd(x, TANH_EDGE, near, far)


def erf(x: Expr) -> Expr:
    """Odd polynomial near 0, else 1 - e**q(|x|)."""
    far = op("sub", 1.0, exp(poly(clamp(op("abs", x), 0.0, ERF_END), ERF_LARGE)))
    near = mad(x, poly(op("mul", x, x), ERF_SMALL), x)
    return _odd(x, ERF_EDGE, near, far)


FAST: dict[str, Callable[[Expr], Expr]] = {
    "exp": exp, "exp2": exp2, "expm1": expm1, "log": log, "log2": log2, "log1p": log1p,
    "tanh": tanh, "erf": erf, "sin": partial(wave, "sin", 0), "cos": partial(wave, "cos", 1),
    "tan": tangent,
}  # fmt: skip
"""Function -> rewrite of its float32 argument."""
