"""Kernels for devices without float64: functions of float32 are the language's own.

Elsewhere they are evaluated in float64 (`compilers/math/soft.py`). What a language lacks is made of
what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compilers import dtype as dt
from compilers.expr import const, postorder
from compilers.ir import Expr
from compilers.math.build import HALVES, op, rarely
from compilers.math.expand import Expander
from compilers.math.half import half_bits


class NativeExpander(Expander):
    """What other targets evaluate in float64, in float32. `natives`: functions that the language
    has under our names; `made`: those that are made of them."""

    def __init__(
        self,
        features: frozenset[str],
        natives: frozenset[str],
        made: Mapping[str, Callable[..., Expr]] | None = None,
        *,
        native_half: bool = False,
        half_ops: bool = False,
    ) -> None:
        super().__init__(features, native_half=native_half, natives=natives, half_ops=half_ops)
        self.made = made or {}

    def _rewrite(self, expr: Expr, src: list[Expr]) -> Expr:
        if expr.op == "const" and expr.dtype in HALVES:
            return const(half_bits(float(expr.arg), expr.dtype), dt.uint16)
        return super()._rewrite(expr, src)

    def _plain(self, name: str, src: list[Expr]) -> Expr:
        if src[0].dtype is not dt.float32:
            return super()._plain(name, src)
        if name in self.made:
            return self.made[name](*src)
        return _without_calls(super()._plain(name, src), src)


def _without_calls(root: Expr, known: list[Expr]) -> Expr:
    """`root` with the C library's functions above `known` as the language's own."""
    done: dict[Expr, Expr] = {expr: expr for expr in known}
    for expr in postorder(root, done.__contains__):
        if expr in done:
            continue
        src = tuple(done[one] for one in expr.src)
        if expr.op == "call":
            condition, fast, *operands = src
            made = op(str(expr.arg).removesuffix("f"), *operands)
            done[expr] = made if condition.op == "const" else rarely(condition, fast, made)
        elif all(one is other for one, other in zip(src, expr.src, strict=True)):
            done[expr] = expr
        else:
            done[expr] = Expr(expr.op, expr.dtype, src, expr.arg)
    return done[root]
