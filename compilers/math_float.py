"""float32 and float64 ops with numpy's semantics, in ops that every target has."""

from __future__ import annotations

from compilers.dtype import DType, limits
from compilers.graph import MATH1, MATH2
from compilers.ir import Expr
from compilers.math_build import (
    bitcast,
    bits,
    both,
    call,
    cast,
    const,
    either,
    is_nan,
    like,
    op,
    where,
)


def _extreme(name: str, a: Expr, b: Expr) -> Expr:
    """max or min: NaN wins, and of equal operands the second is the result, as in numpy."""
    better = op("lt", b, a) if name == "max" else op("lt", a, b)
    return where(is_nan(a), a, where(better, a, b))


def first_extreme(name: str, a: Expr, b: Expr) -> Expr:
    """max or min of float16: as above, but of equal operands the first, as in numpy."""
    kept = op("le", b, a) if name == "max" else op("le", a, b)
    return where(either(is_nan(a), kept), a, b)


def _remainder(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """C's remainder moved to the divisor's sign, and where it was moved."""
    zero = like(a, 0.0)
    rest = call("fmod", a, b)
    moved = both(op("ne", rest, zero), op("xor", op("lt", b, zero), op("lt", rest, zero)))
    return rest, moved


def _mod(a: Expr, b: Expr) -> Expr:
    rest, moved = _remainder(a, b)
    zero = like(a, 0.0)
    signed_zero = where(op("eq", b, zero), rest, op("copysign", zero, b))
    return where(op("eq", rest, zero), signed_zero, where(moved, op("add", rest, b), rest))


def _floordiv(a: Expr, b: Expr) -> Expr:
    rest, moved = _remainder(a, b)
    zero, one = like(a, 0.0), like(a, 1.0)
    exact = op("div", op("sub", a, rest), b)
    exact = where(moved, op("sub", exact, one), exact)
    down = op("floor", exact)
    short = op("lt", like(a, 0.5), op("sub", exact, down))
    whole = where(short, op("add", down, one), down)
    whole = where(op("eq", exact, zero), op("copysign", zero, op("div", a, b)), whole)
    return where(op("eq", b, zero), op("div", a, b), whole)


def next_after(a: Expr, b: Expr, word_a: Expr, word_b: Expr) -> Expr:
    """The bits of the neighbour of `a` towards `b`; the words are the bits of their dtype."""
    zero = like(a, 0.0)
    sign = like(word_b, 1 << (word_b.dtype.bits - 1))
    grow = op("xor", op("lt", a, b), op("lt", a, zero))
    step = where(grow, op("add", word_a, like(word_a, 1)), op("sub", word_a, like(word_a, 1)))
    tiny = op("or", op("and", word_b, sign), like(word_b, 1))
    found = where(op("eq", a, zero), tiny, step)
    found = where(op("eq", a, b), word_b, found)
    return where(is_nan(a), word_a, where(is_nan(b), word_b, found))


def _power(a: Expr, b: Expr) -> Expr:
    """Constant exponents whose result is correctly rounded by one op, else the C library."""
    if b.op == "const" and b.arg in {-1.0, 0.0, 1.0, 2.0}:
        one = like(a, 1.0)
        known = {-1.0: op("div", one, a), 0.0: one, 1.0: a, 2.0: op("mul", a, a)}
        return known[b.arg]
    return call("pow", a, b)


def float_op(name: str, src: list[Expr]) -> Expr | None:
    """An op on floats in target ops; None where floats have no such op."""
    if name in {"max", "min"}:
        return _extreme(name, *src)
    if name == "mod":
        return _mod(*src)
    if name == "floordiv":
        return _floordiv(*src)
    if name == "pow":
        return _power(*src)
    if name == "nextafter":
        return bitcast(next_after(src[0], src[1], bits(src[0]), bits(src[1])), src[0].dtype)
    return call(name, *src) if name in MATH1 | MATH2 else None


def saturate(x: Expr, dtype: DType) -> Expr:
    """float to integer, towards zero; outside values saturate and NaN gives 0."""
    low, high = limits(dtype)
    above = const(float(high + 1), x.dtype)
    below = const(float(low), x.dtype)
    inside = both(op("le", below, x), op("lt", x, above))
    whole = cast(where(inside, x, like(x, 0.0)), dtype)
    whole = where(op("le", above, x), const(high, dtype), whole)
    return where(op("lt", x, below), const(low, dtype), whole)
