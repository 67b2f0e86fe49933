"""Integer and bool ops with numpy's semantics, in ops that cannot trap and wrap on overflow."""

from __future__ import annotations

from compilers.expr import const
from compilers.ir import Expr
from compilers.math.build import bitcast, bits, negate, op, where

BOOL = {"add": "or", "mul": "and", "max": "or", "min": "and", "ne": "xor",
        "and": "and", "or": "or", "xor": "xor"}  # fmt: skip


def bool_op(name: str, src: list[Expr]) -> Expr | None:
    """An op on bools as and, or, xor; None where bools have no such op."""
    if name in BOOL:
        return op(BOOL[name], *src)
    if name in {"invert", "eq"}:
        return negate(src[0] if name == "invert" else op("xor", *src))
    if name == "lt":
        return op("and", negate(src[0]), src[1])
    return op("or", negate(src[0]), src[1]) if name == "le" else None


def _shift(name: str, a: Expr, amount: Expr) -> Expr:
    """A shift by the width or more, or by a negative amount, gives 0 or the sign."""
    unsigned = bits(amount)
    inside = op("lt", unsigned, a.dtype.bits)
    if name == "shr" and a.dtype.kind == "i":
        return op("shr", a, bitcast(where(inside, unsigned, a.dtype.bits - 1), a.dtype))
    return where(inside, op(name, a, where(inside, amount, 0)), 0)


def _divide(name: str, a: Expr, b: Expr) -> Expr:
    """floordiv or mod; by 0 gives 0, and INT_MIN // -1 wraps."""
    by_zero = op("eq", b, 0)
    signed = a.dtype.kind == "i"
    by_minus_one = op("eq", b, -1) if signed else by_zero
    safe = where(op("or", by_zero, by_minus_one) if signed else by_zero, 1, b)
    quotient = op("idiv", a, safe)
    rest = op("sub", a, op("mul", quotient, safe))
    if signed:
        below = op("and", op("ne", rest, 0), op("lt", op("xor", rest, safe), 0))
        rest = where(below, op("add", rest, safe), rest)
        quotient = where(below, op("sub", quotient, 1), quotient)
        quotient = where(by_minus_one, op("sub", 0, a), quotient)
    return where(by_zero, 0, rest if name == "mod" else quotient)


def _power(a: Expr, b: Expr) -> Expr:
    """Square and multiply; a negative exponent gives 0, 1 or -1 as 1 / a ** -b truncates."""
    signed = a.dtype.kind == "i"
    count = abs(int(b.arg)).bit_length() if b.op == "const" else a.dtype.bits - signed
    result, square = const(1, a.dtype), a
    for bit in range(count):
        chosen = op("ne", op("and", b, 1 << bit), 0)
        result = where(chosen, op("mul", result, square), result)
        square = op("mul", square, square)
    if not signed:
        return result
    of_minus = where(op("ne", op("and", b, 1), 0), a, 1)
    inverse = where(op("eq", a, -1), of_minus, where(op("eq", a, 1), a, 0))
    return where(op("lt", b, 0), inverse, result)


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
        return op("sub", 0, a)
    if name == "abs":
        return a if a.dtype.kind == "u" else where(op("lt", a, 0), op("sub", 0, a), a)
    if name == "invert":
        return op("xor", a, -1)
    return a if name in {"floor", "ceil", "trunc", "rint"} else None
