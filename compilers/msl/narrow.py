"""Vectors of more elements than MSL has, as several of four."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from compilers import index as ix
from compilers.index import Var
from compilers.ir import If, Kernel, Loop, Stmt
from compilers.lower.rewrite import StatementRewriter

LANES: Final = 4
"""# src: Metal Shading Language Specification 3.1, 2.2 Vector Data Types"""


def in_fours(kernel: Kernel) -> Kernel:
    """The kernel with all of its vectors of at most four elements."""
    body = _narrow(kernel.body)
    return replace(kernel, body=body) if isinstance(body, Loop) else kernel


def _narrow(stmt: Stmt) -> Stmt:
    if isinstance(stmt, If):
        return If(stmt.valid, tuple(map(_narrow, stmt.body)))
    if not isinstance(stmt, Loop):
        return stmt
    if stmt.kind != "vector" or stmt.extent <= LANES:
        return replace(stmt, body=tuple(map(_narrow, stmt.body)))
    if stmt.extent % LANES:
        return replace(stmt, kind="unroll")
    part, inside = Var("part", stmt.extent // LANES), Var(stmt.var.name, LANES)
    place = ix.var(part) * LANES + ix.var(inside)
    body = StatementRewriter({}, {stmt.var: place}).body(stmt.body)
    return Loop(part, "unroll", (Loop(inside, "vector", body),))
