"""Kernels of devices without int64: positions as int32."""

from __future__ import annotations

from dataclasses import replace

from compilers import dtype as dt
from compilers.ir import Expr, Kernel, Ref
from compilers.lower.rewrite import StatementRewriter
from drivers.base.errors import Unsupported


class _Words(StatementRewriter):
    """int64 values are positions within buffers here: int32 holds them."""

    def _copy(self, expr: Expr) -> Expr:
        made = super()._copy(expr)
        if made.dtype is not dt.int64:
            return made
        low, high = dt.limits(dt.int32)
        if made.op == "index" and not low <= made.arg.low <= made.arg.high <= high:
            raise Unsupported(
                f"a position up to {made.arg.high} needs int64, which the device lacks",
                hint="Split the array",
            )
        return made if made.op == "load" else Expr(made.op, dt.int32, made.src, made.arg)


def without_int64(kernel: Kernel) -> Kernel:
    """The same kernel; its parameters have no int64. Raises: Unsupported."""
    _, high = dt.limits(dt.int32)
    large = next((ref for ref in kernel.params if ref.size > high + 1), None)
    if large is not None:
        raise Unsupported(
            f"{kernel.name}: positions in {large.size} elements need int64, which the device lacks",
            hint="Split the array",
        )
    moved = {ref: _narrow(ref) for ref in kernel.locals if ref.dtype is dt.int64}
    rewriter = _Words(moved, {})
    body = replace(kernel.body, body=rewriter.body(kernel.body.body))
    return replace(kernel, locals=tuple(moved.get(ref, ref) for ref in kernel.locals), body=body)


def _narrow(ref: Ref) -> Ref:
    return replace(ref, dtype=dt.int32)
