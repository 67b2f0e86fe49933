"""Kernels that are not a map and not a reduction: the running reduction and the stable sort."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from compilers import dtype as dt
from compilers import expr as ex
from compilers import index as ix
from compilers.graph import Node
from compilers.index import Dyn, Index, Var
from compilers.ir import Expr, Kernel, Loop, Ref, Stmt, Store
from compilers.plan.algorithm import Cut, Expander

RefOf = Callable[[Node], Ref | None]


class _Source:
    """The source of a special node over fresh axes; a reduction inside it is cut out."""

    def __init__(self, node: Node, ref_of: RefOf) -> None:
        self.node = node
        self.axes = tuple(Var(f"i{axis}", n) for axis, n in enumerate(node.shape))
        self.idx = tuple(ix.var(v) for v in self.axes)
        expander = Expander(node, ref_of)
        self.value = expander.value(node.src[0], self.idx)
        if expander.reductions:
            raise Cut(expander.reductions[-1].node)

    def rows(self, axis: int) -> tuple[Var, dict[Var, Index]]:
        """A grid over every axis but one, and the environment it binds."""
        others = [v for number, v in enumerate(self.axes) if number != axis]
        grid = Var("g", prod(v.extent for v in others))
        point = ix.unflatten(ix.var(grid), tuple(v.extent for v in others))
        return grid, dict(zip(others, point, strict=True))

    def at(self, env: dict[Var, Index]) -> Index:
        """Position of the element of `env` in the result."""
        return ix.flatten(self.idx, self.node.shape).substitute(env)


def lower_scan(node: Node, name: str, out: Ref, ref_of: RefOf) -> Kernel:
    """out[.., j, ..] = kind over 0..j of the source: one row per grid item."""
    kind, axis = node.arg
    source = _Source(node, ref_of)
    grid, env = source.rows(axis)
    step = Var("j", node.shape[axis])
    env[source.axes[axis]] = ix.var(step)
    acc = Ref("acc", node.dtype, 1, "register")
    here = ix.const(0)
    value = ex.Rewriter(env).expr(source.value)
    joined = Expr(ex.COMBINE[kind], node.dtype, (ex.load(acc, here), value))
    start = ex.const(ex.identity(kind, node.dtype), node.dtype)
    body = Loop(grid, "grid", (
        Store(acc, here, start),
        Loop(step, "serial", (Store(acc, here, joined),
                              Store(out, source.at(env), ex.load(acc, here)))),
    ))  # fmt: skip
    return Kernel(name, params(out, value), (acc,), body)


def params(out: Ref, *values: Expr) -> tuple[Ref, ...]:
    """The parameters that values and an output name, in the order of their slots."""
    refs = {read.ref for value in values for read in ex.loads(value) if read.ref.space == "global"}
    return tuple(sorted(refs | {out}, key=lambda ref: ref.slot))


def lower_argsort(node: Node, name: str, out: Ref, ref_of: RefOf) -> Kernel:
    """Stable bottom-up merge sort of each row: keys and positions, between two scratch halves.

    Level l merges runs of w = 2**l: `left` and `right` are the next elements of both runs, and
    each step moves the smaller one (the left one when equal) to the other half.
    """
    return _MergeSort(node, out, ref_of).kernel(name)


def rank_sort(node: Node, name: str, out: Ref, ref_of: RefOf, block: int) -> Kernel:
    """The argsort of short rows on a GPU: each lane counts what comes before its element, which is
    its place. Longer rows are sorted by compilers/lower/gpu_sort.py, where waves exchange values.
    """
    axis, descending = node.arg
    source = _Source(node, ref_of)
    if source.value.op not in ("load", "const", "index"):
        raise Cut(node.src[0])  # so that it is not computed for every comparison
    item = Var("g", prod(v.extent for v in source.axes))
    extents = tuple(v.extent for v in source.axes)
    env = dict(zip(source.axes, ix.unflatten(ix.var(item), extents), strict=True))
    other = Var("j", node.shape[axis])
    mine = ex.Rewriter(env).expr(source.value)
    theirs = ex.Rewriter({**env, source.axes[axis]: ix.var(other)}).expr(source.value)
    place = env[source.axes[axis]]
    here, there = (Expr("index", dt.int64, (), index) for index in (place, ix.var(other)))
    before, after = _less(theirs, mine), _less(mine, theirs)
    before, after = (after, before) if descending else (before, after)
    tie = _bool("and", Expr("invert", dt.bool_, (after,)), Expr("lt", dt.bool_, (there, here)))
    kind = dt.int32 if other.extent <= dt.limits(dt.int32)[1] else dt.int64
    rank, zero = Ref("rank", kind, 1, "register"), ix.const(0)
    count = Expr("cast", kind, (_bool("or", before, tie),))
    found = Index({Dyn(ex.load(rank, zero), 0, other.extent - 1): 1}, 0)
    body = Loop(item, "item", (
        Store(rank, zero, ex.const(0, kind)),
        Loop(other, "serial", (
            Store(rank, zero, Expr("add", kind, (ex.load(rank, zero), count))),)),
        Store(out, source.at({**env, source.axes[axis]: found}), here),
    ))  # fmt: skip
    return Kernel(name, params(out, mine), (rank,), body, block)


class _MergeSort:
    def __init__(self, node: Node, out: Ref, ref_of: RefOf) -> None:
        self.axis, self.descending = node.arg
        self.source, self.out = _Source(node, ref_of), out
        self.n = node.shape[self.axis]
        self.half = self.n + 1
        dtype = node.src[0].dtype
        self.keys = Ref("keys", dtype, 2 * self.half, "scratch", 0)
        key_bytes = -(-2 * self.half * dtype.itemsize // 64) * 64
        self.places = Ref("places", dt.int64, 2 * self.half, "scratch", key_bytes)
        self.left = Ref("left", dt.int64, 1, "register")
        self.right = replace(self.left, name="right")
        self.take = Ref("take", dt.bool_, 1, "register")

    def kernel(self, name: str) -> Kernel:
        grid, env = self.source.rows(self.axis)
        axis_var = self.source.axes[self.axis]
        i, last = Var("i", self.n), Var("o", self.n)
        value = ex.Rewriter({**env, axis_var: ix.var(i)}).expr(self.source.value)
        place = Expr("index", dt.int64, (), ix.var(i))
        levels = (self.n - 1).bit_length()
        final = ix.var(last) + (levels % 2) * self.half
        body = Loop(grid, "grid", (
            Loop(i, "serial", (Store(self.keys, ix.var(i), value),
                               Store(self.places, ix.var(i), place))),
            *self._merges(levels),
            Loop(last, "serial", (Store(
                self.out, self.source.at({**env, axis_var: ix.var(last)}),
                ex.load(self.places, final)),)),
        ))  # fmt: skip
        return Kernel(
            name,
            params(self.out, value),
            (self.keys, self.places, self.left, self.right, self.take),
            body,
        )

    def _merges(self, levels: int) -> tuple[Stmt, ...]:
        if not levels:
            return ()
        level, t = Var("level", levels), Var("t", self.n)
        zero = ix.const(0)
        n, one = ex.const(self.n, dt.int64), ex.const(1, dt.int64)
        number = Expr("index", dt.int64, (), ix.var(level))
        at = Expr("index", dt.int64, (), ix.var(t))
        width = _int("shl", one, number)
        start = _int("sub", at, _int("and", at, _int("sub", _int("shl", width, one), one)))
        middle = _int("min", _int("add", start, width), n)
        end = _int("min", _int("add", middle, width), n)
        fresh = Expr("eq", dt.bool_, (at, start))
        left, right = ex.load(self.left, zero), ex.load(self.right, zero)
        took = ex.load(self.take, zero)
        source = _int("mul", _int("and", number, one), ex.const(self.half, dt.int64))
        base = Index({Dyn(source, 0, self.half): 1}, 0)
        at_left, at_right = (base + Index({Dyn(p, 0, self.n): 1}, 0) for p in (left, right))
        target = ix.const(self.half) - base + ix.var(t)
        moved = tuple(
            Store(
                ref,
                target,
                Expr("where", ref.dtype, (took, ex.load(ref, at_left), ex.load(ref, at_right))),
            )
            for ref in (self.keys, self.places)
        )
        step = (
            Store(self.left, zero, Expr("where", dt.int64, (fresh, start, left))),
            Store(self.right, zero, Expr("where", dt.int64, (fresh, middle, right))),
            Store(self.take, zero, self._left_first(left, right, middle, end, at_left, at_right)),
            *moved,
            Store(self.left, zero, _int("add", left, Expr("cast", dt.int64, (took,)))),
            Store(self.right, zero, _int("sub", _int("add", right, one),
                                         Expr("cast", dt.int64, (took,)))),
        )  # fmt: skip
        return (Loop(level, "serial", (Loop(t, "serial", step),)),)

    def _left_first(
        self, left: Expr, right: Expr, middle: Expr, end: Expr, at_left: Index, at_right: Index
    ) -> Expr:
        """left < middle and (right >= end or not right's key before left's key)."""
        key_left, key_right = ex.load(self.keys, at_left), ex.load(self.keys, at_right)
        before = _less(key_left, key_right) if self.descending else _less(key_right, key_left)
        stays = Expr("invert", dt.bool_, (before,))
        exhausted = Expr("le", dt.bool_, (end, right))
        return _bool("and", Expr("lt", dt.bool_, (left, middle)), _bool("or", exhausted, stays))


def _less(a: Expr, b: Expr) -> Expr:
    """a before b in ascending order, NaN last."""
    less = Expr("lt", dt.bool_, (a, b))
    if a.dtype.kind != "f":
        return less
    a_number, b_nan = Expr("eq", dt.bool_, (a, a)), Expr("ne", dt.bool_, (b, b))
    return _bool("or", less, _bool("and", a_number, b_nan))


def _int(op: str, a: Expr, b: Expr) -> Expr:
    return Expr(op, dt.int64, (a, b))


def _bool(op: str, a: Expr, b: Expr) -> Expr:
    return Expr(op, dt.bool_, (a, b))
