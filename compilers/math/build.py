"""Short constructors for the expressions that the math rewrites are made of.

Where an operand may be a number, it is a constant of the dtype of the other operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.expr import const
from compilers.graph import COMPARE
from compilers.ir import Expr

Operand: TypeAlias = Expr | float
UNSIGNED = {1: dt.uint8, 2: dt.uint16, 4: dt.uint32, 8: dt.uint64}
HALVES = (dt.float16, dt.bfloat16)
HIGH_PART = 0xFFFFF000
MEMORY = {dt.bool_: dt.uint8, dt.float16: dt.uint16, dt.bfloat16: dt.uint16}
"""What is loaded and stored for dtypes that no renderer knows in memory."""


def _promote(src: tuple[Operand, ...]) -> tuple[Expr, ...]:
    dtype = next(s.dtype for s in src if isinstance(s, Expr))
    return tuple(s if isinstance(s, Expr) else const(s, dtype) for s in src)


def op(name: str, *src: Operand) -> Expr:
    """An op whose result has its operands' dtype; comparisons give bool."""
    found = _promote(src)
    return Expr(name, dt.bool_ if name in COMPARE else found[0].dtype, found)


def where(condition: Expr, a: Operand, b: Operand) -> Expr:
    """`a` where the condition holds, else `b`; one of the two is an expression."""
    found = _promote((a, b))
    return Expr("where", found[0].dtype, (condition, *found))


def rarely(condition: Expr, usual: Expr, other: Expr) -> Expr:
    """`other` where the condition holds, which is a branch, else `usual`. `other` may depend on
    only what these two depend on."""
    return Expr("rarely", usual.dtype, (condition, usual), other)


def mad(a: Operand, b: Operand, c: Operand) -> Expr:
    """a * b + c, with one rounding where the target can."""
    return op("mad", a, b, c)


def cast(x: Expr, dtype: DType) -> Expr:
    """The same number in another dtype; integers wrap."""
    return x if x.dtype is dtype else Expr("cast", dtype, (x,))


def bitcast(x: Expr, dtype: DType) -> Expr:
    """The same bits in another dtype."""
    return x if x.dtype is dtype else Expr("bitcast", dtype, (x,))


def bits(x: Expr) -> Expr:
    """The unsigned integer with the same bytes."""
    return bitcast(x, UNSIGNED[x.dtype.itemsize])


def is_nan(x: Expr) -> Expr:
    """Whether a float is NaN."""
    return op("ne", x, x)


def negate(condition: Expr) -> Expr:
    """Logical not."""
    return op("xor", condition, True)


def call(name: str, *src: Expr, rare: Expr | None = None, fast: Expr | None = None) -> Expr:
    """A C library function, lane by lane; `name` is that of the double version.

    With `rare` and `fast`: the function only where `rare` holds, which is a branch, else `fast`.
    """
    suffix = "f" if src[0].dtype is dt.float32 else ""
    condition = const(True, dt.bool_) if rare is None else rare
    return Expr("call", src[0].dtype, (condition, fast or src[0], *src), name + suffix)


def high_part(x: Expr) -> Expr:
    """A float32 cut to 12 bits: a product of two such is exact."""
    return bitcast(op("and", bits(x), HIGH_PART), x.dtype)


def sum_pair(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """a + b and its rounding error, where a is 0 or |a| >= |b|."""
    total = op("add", a, b)
    return total, op("sub", b, op("sub", total, a))


def pick(values: Sequence[Expr], index: Expr) -> Expr:
    """values[index], by halving the table bit by bit."""
    level = list(values)
    for bit in range(len(values).bit_length()):
        if len(level) == 1:
            break
        chosen = op("ne", op("and", index, 1 << bit), 0)
        pairs = zip(level[::2], [*level[1::2], level[-1]], strict=False)
        level = [where(chosen, second, first) for first, second in pairs]
    return level[0]


def poly(x: Expr, coefficients: tuple[float, ...]) -> Expr:
    """Horner's rule; coefficients from the constant upwards."""
    result = const(coefficients[-1], x.dtype)
    for coefficient in reversed(coefficients[:-1]):
        result = mad(result, x, coefficient)
    return result
