"""Replacing the innermost product of a contraction by a machine instruction.

One instruction so far: AVX512-BF16's VDPBF16PS, `dot2` in the IR. It multiplies pairs of bfloat16
and adds both products to a float32, so the operands are packed as pairs along k.
Denormal inputs and results count as zero, as the instruction defines it.
# src: Intel SDM volume 2, VDPBF16PS
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from compilers import dtype as dt
from compilers import expr as ex
from compilers import index as ix
from compilers.index import Var
from compilers.ir import Expr


def paired(
    operands: Sequence[Expr], axes: tuple[Var, ...], features: frozenset[str]
) -> tuple[Expr, Expr, Var] | None:
    """Both operands of a product over `axes` as packed pairs, and the axis that counts the pairs;
    None unless they are bfloat16 and the CPU has dot2."""
    if "avx512bf16" not in features:
        return None
    a, b = map(_narrow, operands)
    if a is None or b is None:
        return None
    depth = prod(axis.extent for axis in axes)
    pairs = Var("pairs", -(-depth // 2))
    return _pack(a, axes, pairs, depth), _pack(b, axes, pairs, depth), pairs


def _narrow(operand: Expr) -> Expr | None:
    """The bfloat16 value that an operand widens to float32."""
    if operand.op == "cast" and operand.dtype is dt.float32:
        source = operand.src[0]
        return source if source.dtype is dt.bfloat16 else None
    return None


def _pack(value: Expr, axes: tuple[Var, ...], pairs: Var, depth: int) -> Expr:
    """Elements 2p and 2p + 1 along k in the low and high half of a uint32; 0 past the end."""
    halves: list[Expr] = []
    for half in range(2):
        position = ix.var(pairs) * 2 + half
        guard = ex.bounded([(position, 0, depth)])
        parts = ix.unflatten(position, tuple(axis.extent for axis in axes))
        env = dict(zip(axes, parts, strict=True))
        element = ex.Rewriter(env, guard=guard).expr(value)
        element = ex.guarded(element, guard, ex.const(0, dt.bfloat16))
        bits = Expr("bitcast", dt.uint16, (element,))
        halves.append(Expr("cast", dt.uint32, (bits,)))
    shifted = Expr("shl", dt.uint32, (halves[1], ex.const(16, dt.uint32)))
    return Expr("or", dt.uint32, (halves[0], shifted))
