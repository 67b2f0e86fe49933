"""Kernels of the contract suite, as IR: each device's own compiler makes its code of them."""

from __future__ import annotations

from typing import Final

from compilers import dtype as dt
from compilers import expr as ex
from compilers import index as ix
from compilers.index import Var
from compilers.ir import Barrier, Kernel, Loop, Ref, Stmt, Store
from drivers.base.contracts import Limits

BLOCK: Final = 64
"""Lanes of a workgroup, where there are lanes."""


def _each(point: ix.Index, store: Store) -> Loop:
    """One store, in the innermost loop that every renderer knows."""
    return Loop(Var("u", 1), "unroll", (store,))


def combine(limits: Limits, count: int) -> Kernel:
    """c[i] = 3 * a[i] + b[i] for i < count, int32: arguments a, b, c."""
    a, b, c = (Ref(name, dt.int32, count, "global", slot) for slot, name in enumerate("abc"))
    lanes = limits.max_block > 1
    item = Var("g", count)
    at = ix.var(item)
    three = ex.const(3, dt.int32)
    scaled = ex.Expr("mul", dt.int32, (ex.load(a, at), three))
    value = ex.Expr("add", dt.int32, (scaled, ex.load(b, at)))
    body = _each(at, Store(c, at, value))
    loop = Loop(item, "item" if lanes else "grid", (body,))
    return Kernel("combine", (a, b, c), (), loop, block=min(BLOCK, limits.max_block) * lanes)


def mirror(limits: Limits) -> Kernel:
    """b[i] = a[n - 1 - i], int32, by one workgroup of `max_block` lanes that meets in the last
    `max_block` words of `shared_bytes` bytes of shared memory."""
    block, words = limits.max_block, limits.shared_bytes // dt.int32.itemsize
    a, b = (Ref(name, dt.int32, block, "global", slot) for slot, name in enumerate("ab"))
    tile = Ref("tile", dt.int32, words, "shared")
    lane, group = Var("lane", block), Var("g", 1)
    at = ix.var(lane)
    last = ix.const(words - 1)
    store = Store(tile, last - at, ex.load(a, at))
    load = Store(b, at, ex.load(tile, at + (words - block)))
    body: tuple[Stmt, ...] = (Loop(lane, "lane", (_each(at, store), Barrier(), _each(at, load))),)
    return Kernel("mirror", (a, b), (tile,), Loop(group, "grid", body), block=block)
