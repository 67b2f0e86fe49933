"""float32 and float64 ops with numpy's semantics, in ops that every target has."""

from __future__ import annotations

from compilers.dtype import DType, limits
from compilers.expr import const
from compilers.graph import MATH1, MATH2
from compilers.ir import Expr
from compilers.math.build import bitcast, bits, call, cast, is_nan, op, where


def _extreme(name: str, a: Expr, b: Expr) -> Expr:
    """max or min: NaN wins, and of equal operands the second is the result, as in numpy."""
    better = op("lt", b, a) if name == "max" else op("lt", a, b)
    return where(is_nan(a), a, where(better, a, b))


def _remainder(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """C's remainder moved to the divisor's sign, and where it was moved."""
    rest = call("fmod", a, b)
    across = op("xor", op("lt", b, 0.0), op("lt", rest, 0.0))
    return rest, op("and", op("ne", rest, 0.0), across)


def _mod(a: Expr, b: Expr) -> Expr:
    rest, moved = _remainder(a, b)
    signed_zero = where(op("eq", b, 0.0), rest, op("copysign", 0.0, b))
    return where(op("eq", rest, 0.0), signed_zero, where(moved, op("add", rest, b), rest))


def _floordiv(a: Expr, b: Expr) -> Expr:
    rest, moved = _remainder(a, b)
    plain = op("div", a, b)
    exact = op("div", op("sub", a, rest), b)
    exact = where(moved, op("sub", exact, 1.0), exact)
    down = op("floor", exact)
    whole = where(op("lt", 0.5, op("sub", exact, down)), op("add", down, 1.0), down)
    whole = where(op("eq", exact, 0.0), op("copysign", 0.0, plain), whole)
    return where(op("eq", b, 0.0), plain, whole)


def next_after(a: Expr, b: Expr, word_a: Expr, word_b: Expr) -> Expr:
    """The bits of the neighbour of `a` towards `b`; the words are the bits of their dtype."""
    sign = 1 << (word_b.dtype.bits - 1)
    grow = op("xor", op("lt", a, b), op("lt", a, 0.0))
    step = where(grow, op("add", word_a, 1), op("sub", word_a, 1))
    tiny = op("or", op("and", word_b, sign), 1)
    found = where(op("eq", a, 0.0), tiny, step)
    found = where(op("eq", a, b), word_b, found)
    return where(is_nan(a), word_a, where(is_nan(b), word_b, found))


def _power(a: Expr, b: Expr) -> Expr:
    """Constant exponents whose result is correctly rounded by one op, else the C library."""
    known = {-1.0: op("div", 1.0, a), 0.0: const(1.0, a.dtype), 1.0: a, 2.0: op("mul", a, a)}
    if b.op == "const" and b.arg in known:
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
        return bitcast(next_after(*src, *map(bits, src)), src[0].dtype)
    return call(name, *src) if name in MATH1 | MATH2 else None


def saturate(x: Expr, dtype: DType) -> Expr:
    """float to integer, towards zero; outside values saturate and NaN gives 0."""
    low, high = limits(dtype)
    above, below = op("le", float(high + 1), x), op("lt", x, float(low))
    inside = op("and", op("lt", x, float(high + 1)), op("le", float(low), x))
    whole = cast(where(inside, x, 0.0), dtype)
    return where(below, low, where(above, high, whole))
