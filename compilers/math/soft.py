"""Where there is no C library (a GPU): its functions in target ops, evaluated in float64.

float32 arguments are widened and the result is rounded once, so that it is as good as a library's.
float64 results are within a few units in the last place. Special cases are C's Annex F.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

from compilers import dtype as dt
from compilers.ir import Expr
from compilers.math.build import cast, negate, op, rarely, where
from compilers.math.soft_exp import exp, exp2, expm1, log, log1p, log2, log10, power
from compilers.math.soft_more import (
    FMOD_SINGLE_STEPS,
    acosh,
    asinh,
    atanh,
    cosh,
    erf,
    fmod,
    hypot,
    sinh,
    tanh,
)
from compilers.math.soft_trig import acos, asin, atan, atan2, cos, sin, tan

SOFT: dict[str, Callable[..., Expr]] = {
    "exp": exp, "exp2": exp2, "expm1": expm1, "log": log, "log2": log2, "log10": log10,
    "log1p": log1p, "sin": sin, "cos": cos, "tan": tan, "asin": asin, "acos": acos, "atan": atan,
    "sinh": sinh, "cosh": cosh, "tanh": tanh, "asinh": asinh, "acosh": acosh, "atanh": atanh,
    "erf": erf, "pow": power, "atan2": atan2, "hypot": hypot, "fmod": fmod,
}  # fmt: skip
"""The C function's name, without its suffix -> float64 arguments to float64 result."""
QUOTIENT_LIMIT = 2.0**22
"""Below it a float32 quotient is an integer and a fraction, and is off by one at most."""


def _fmod_single(x: Expr, y: Expr) -> Expr:
    """The remainder of float32: exact in one step while the quotient is a small integer."""
    a, b = op("abs", x), op("abs", y)
    near = op("and", op("lt", a, op("mul", b, QUOTIENT_LIMIT)), op("lt", b, inf))
    rest = op("fma", op("neg", op("trunc", op("div", a, b))), b, a)
    rest = where(op("lt", rest, 0.0), op("add", rest, b), rest)
    far = fmod(cast(x, dt.float64), cast(y, dt.float64), steps=FMOD_SINGLE_STEPS)
    return rarely(negate(near), op("copysign", rest, x), cast(far, dt.float32))


OWN: Mapping[str, Callable[..., Expr]] = {"fmodf": _fmod_single}
"""Functions of float32 that need little float64."""


def without_calls(
    root: Expr, known: Sequence[Expr], own: Mapping[str, Callable[..., Expr]] = OWN
) -> Expr:
    """`root` with every call above `known` replaced; sharing is kept. `own`: a C function's
    name -> what is not to be evaluated in float64 by SOFT."""
    done: dict[Expr, Expr] = {expr: expr for expr in known}
    stack = [(root, False)]
    while stack:
        expr, sources_done = stack.pop()
        if expr in done:
            continue
        if sources_done:
            done[expr] = _rebuilt(expr, tuple(done[source] for source in expr.src), own)
        else:
            stack.append((expr, True))
            stack.extend((source, False) for source in expr.src)
    return done[root]


def _rebuilt(expr: Expr, src: tuple[Expr, ...], own: Mapping[str, Callable[..., Expr]]) -> Expr:
    if expr.op != "call":
        same = all(a is b for a, b in zip(src, expr.src, strict=True))
        return expr if same else Expr(expr.op, expr.dtype, src, expr.arg)
    condition, fast, *operands = src
    single = expr.dtype is dt.float32
    name = expr.arg.removesuffix("f") if single and expr.arg not in SOFT else expr.arg
    if expr.arg in own:
        value = own[expr.arg](*operands)
    else:
        value = cast(SOFT[name](*(cast(x, dt.float64) for x in operands)), expr.dtype)
    return value if condition.op == "const" else rarely(condition, fast, value)
