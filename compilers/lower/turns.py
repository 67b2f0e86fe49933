"""Kernels of more workgroups than a launch may have: each workgroup does several, in turns."""

from __future__ import annotations

from dataclasses import replace

from compilers import expr as ex
from compilers import index as ix
from compilers.index import Var
from compilers.ir import Barrier, If, Kernel, Loop, Stmt
from compilers.lower.rewrite import StatementRewriter


def in_turns(kernel: Kernel, most: int) -> Kernel:
    """The kernel with a grid of at most `most`, all turns but the last of equal size.

    The condition of the last turn is the same in all lanes of a workgroup, so that barriers stay
    where all of them are; one more keeps a turn's shared memory from the turn before.
    """
    if kernel.grid <= most:
        return kernel
    body, turns = kernel.body, -(-kernel.grid // most)
    lanes = kernel.block if body.kind == "item" else 1
    groups = -(-kernel.grid // turns)
    turn, own = Var("turn", turns), Var(body.var.name, groups * lanes)
    at = ix.var(turn) * own.extent + ix.var(own)
    inner: tuple[Stmt, ...] = StatementRewriter({}, {body.var: at}).body(body.body)
    if kernel.shared_bytes:
        inner = (*inner, Barrier())
    guard = ex.bounded([(at, 0, body.extent)])
    inner = (If(guard, inner),) if guard else inner
    loop = Loop(turn, "serial", inner)
    return replace(kernel, body=Loop(own, body.kind, (loop,)))
