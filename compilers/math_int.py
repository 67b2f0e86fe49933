"""Integer and bool ops with numpy's semantics, in ops that cannot trap and wrap on overflow."""

from __future__ import annotations

from compilers import dtype as dt
from compilers.ir import Expr
from compilers.math_build import UNSIGNED, bitcast, both, const, either, like, negate, op, where

BOOL = {"add": "or", "mul": "and", "max": "or", "min": "and", "ne": "xor"}


def _bool_less(a: Expr, b: Expr) -> Expr:
    return both(negate(a), b)


def bool_op(name: str, src: list[Expr]) -> Expr | None:
    """An op on bools as and, or, xor; None where bools have no such op."""
    if name in {"and", "or", "xor"}:
        return op(name, *src)
    if name in BOOL:
        return Expr(BOOL[name], dt.bool_, tuple(src))
    if name == "invert":
        return negate(src[0])
    if name == "eq":
        return negate(op("xor", *src))
    if name == "lt":
        return _bool_less(*src)
    if name == "le":
        return either(negate(src[0]), src[1])
    return None


def _shift(name: str, a: Expr, amount: Expr) -> Expr:
    """A shift by the width or more, or by a negative amount, gives 0 or the sign."""
    width = a.dtype.bits
    signed = name == "shr" and a.dtype.kind == "i"
    unsigned = bitcast(amount, UNSIGNED[a.dtype.itemsize])
    inside = op("lt", unsigned, like(unsigned, width))
    if signed:
        return op("shr", a, bitcast(where(inside, unsigned, like(unsigned, width - 1)), a.dtype))
    safe = where(inside, amount, like(amount, 0))
    return where(inside, op(name, a, safe), like(a, 0))


def _divide(name: str, a: Expr, b: Expr) -> Expr:
    """floordiv or mod; by 0 gives 0, and INT_MIN // -1 wraps."""
    zero, one = like(a, 0), like(a, 1)
    by_zero = op("eq", b, zero)
    signed = a.dtype.kind == "i"
    by_minus_one = op("eq", b, like(b, -1)) if signed else by_zero
    safe = where(either(by_zero, by_minus_one) if signed else by_zero, one, b)
    quotient = op("idiv", a, safe)
    rest = op("sub", a, op("mul", quotient, safe))
    if signed:
        below = both(op("ne", rest, zero), op("lt", op("xor", rest, safe), zero))
        if name == "mod":
            rest = where(below, op("add", rest, safe), rest)
        else:
            quotient = where(below, op("sub", quotient, one), quotient)
            quotient = where(by_minus_one, op("sub", zero, a), quotient)
    return where(by_zero, zero, rest if name == "mod" else quotient)


def _power(a: Expr, b: Expr) -> Expr:
    """Square and multiply; a negative exponent gives 0, 1 or -1 as 1 / a ** -b truncates."""
    one = like(a, 1)
    if b.op == "const":
        return _constant_power(a, int(b.arg))
    result, square = one, a
    for bit in range(a.dtype.bits - (a.dtype.kind == "i")):
        chosen = op("ne", op("and", b, like(b, 1 << bit)), like(b, 0))
        result = where(chosen, op("mul", result, square), result)
        square = op("mul", square, square)
    if a.dtype.kind == "u":
        return result
    odd = op("ne", op("and", b, like(b, 1)), like(b, 0))
    return where(op("lt", b, like(b, 0)), _reciprocal_power(a, odd), result)


def _reciprocal_power(a: Expr, odd: Expr) -> Expr:
    one, minus = like(a, 1), like(a, -1)
    of_minus = where(op("eq", a, minus), where(odd, minus, one), like(a, 0))
    return where(op("eq", a, one), one, of_minus)


def _constant_power(a: Expr, exponent: int) -> Expr:
    if exponent < 0:
        return _reciprocal_power(a, const(exponent % 2 == 1, dt.bool_))
    result: Expr | None = None
    square = a
    for bit in range(exponent.bit_length()):
        if exponent >> bit & 1:
            result = square if result is None else op("mul", result, square)
        square = op("mul", square, square)
    return like(a, 1) if result is None else result


def int_op(name: str, src: list[Expr]) -> Expr | None:
    """An op on integers in wrapping target ops; None where integers have no such op."""
    a = src[0]
    if name in {"shl", "shr"}:
        return _shift(name, *src)
    if name in {"floordiv", "mod"}:
        return _divide(name, *src)
    if name == "pow":
        return _power(*src)
    if name in {"max", "min"}:
        x, y = src if name == "max" else (src[1], src[0])
        return where(op("lt", x, y), src[1], src[0])
    if name == "neg":
        return op("sub", like(a, 0), a)
    if name == "abs":
        if a.dtype.kind == "u":
            return a
        return where(op("lt", a, like(a, 0)), op("sub", like(a, 0), a), a)
    if name == "invert":
        return op("xor", a, like(a, -1))
    return a if name in {"floor", "ceil", "trunc", "rint"} else None
