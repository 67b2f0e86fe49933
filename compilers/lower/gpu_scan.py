"""Running reductions on a GPU: in three passes where rows are too few to keep it busy.

    totals   of each segment of a row but the last: an ordinary reduction
    before   the running reduction of the totals: one short kernel
    scan     of each segment, begun with what is before it

Where the scanned axis is not the one that is contiguous, neighbouring lanes take neighbouring
columns, each serially down its segment. Else a team of lanes takes a segment, 128 bits a lane at a
time: each lane scans its own elements, totals are combined by swaps in a wave and in shared memory
across waves. No workgroup waits for another, and the order of additions is always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from compilers import expr as ex
from compilers import index as ix
from compilers.graph import Node, reduce, reshape, scan, slice_
from compilers.index import Index, Var
from compilers.ir import Expr, If, Kernel, Loop, Ref, Stmt, Store, Valid
from compilers.lower.choose import Target
from compilers.lower.gpu import BLOCK
from compilers.lower.gpu_lanes import ZERO, Prefix
from compilers.lower.gpu_transpose import crossed
from compilers.lower.special import params
from compilers.plan.algorithm import Algorithm, Cut, Expander
from compilers.plan.coalesce import coalesce
from compilers.plan.split import GROUPS

CHUNKS = 4
"""A segment of a row is this many loads of a workgroup at least: three kernels cost more than as
many rounds of one."""
ENOUGH = 2
"""Workgroups for each compute unit from which on rows stay whole: parts are read twice."""
MIN_COLUMNS = 8
"""Fewer contiguous columns than this are scanned as rows of elements that are apart."""
COLUMN_DEPTH, UNROLL = 64, 8
"""Fewest elements of a column that a lane scans, and loads before it adds them."""


def split_scans(nodes: Sequence[Node], target: Target) -> None:
    """Rewrite, in place, the scans among `nodes` with too few rows for the GPU."""
    for node in nodes:
        if node.op != "scan" or 0 in node.shape:
            continue
        kind, axis = node.arg
        span = _span(node, target)
        parts = -(-node.shape[axis] // span)
        if parts > 1:
            whole = (*node.shape[:axis], parts - 1, span, *node.shape[axis + 1 :])
            kept = (*whole[:axis], (parts - 1) * span, *whole[axis + 2 :])
            source = slice_(node.src[0], ((0, 1),) * len(kept), kept)
            totals = reduce(kind, reshape(source, whole), (axis + 1,))
            node.src = (node.src[0], scan(kind, totals, axis))
            node.arg = (kind, axis, span)


def _span(node: Node, target: Target) -> int:
    """Elements of a segment; at least the row's where it is not split."""
    axis: int = node.arg[1]
    length = node.shape[axis]
    columns = prod(node.shape[axis + 1 :])
    rows = prod(node.shape) // length
    if columns >= MIN_COLUMNS:
        rows, least = -(-rows // BLOCK), COLUMN_DEPTH
    else:
        least = CHUNKS * BLOCK * _width(node, target)
    if rows >= ENOUGH * target.threads:
        return length
    parts = min(GROUPS * target.threads // rows, length // least)
    unit = least // CHUNKS
    return -(-length // (max(parts, 1) * unit)) * unit


def _width(node: Node, target: Target) -> int:
    """Elements that a lane loads at once, unless its row is shorter."""
    return target.width(node.dtype.itemsize)


def lower_gpu_scan(
    node: Node, name: str, out: Ref, ref_of: Callable[[Node], Ref | None], target: Target
) -> Kernel:
    """The kernel of a scan, split or not. Raises: Cut, of what has to be realised before."""
    made = _Scan(node, out, ref_of, target.threads)
    body, local, block = made.columns(target) if made.column else made.rows(target)
    return Kernel(name, params(out, *made.algorithm.value.src), tuple(local), body, block)


class _Scan:
    """What is scanned, over as few axes as memory allows, and what segments begin with."""

    def __init__(
        self, node: Node, out: Ref, ref_of: Callable[[Node], Ref | None], units: int
    ) -> None:
        self.kind, at, *span = node.arg
        self.out, self.dtype, self.length = out, node.dtype, node.shape[at]
        self.span = span[0] if span else self.length
        self.segments = -(-self.length // self.span)
        axes = [Var(f"i{number}", n) for number, n in enumerate(node.shape)]
        idx = tuple(map(ix.var, axes))
        expander = Expander(node, ref_of)
        value = expander.value(node.src[0], idx)
        self.scanned, self.segment = axes[at], Var("segment", max(self.segments - 1, 1))
        self.identity = ex.const(ex.identity(self.kind, self.dtype), self.dtype)
        before = self.identity
        if span:
            place = (*idx[:at], ix.var(self.segment), *idx[at + 1 :])
            before = expander.value(node.src[1], place)
        if expander.reductions:
            raise Cut(expander.reductions[-1].node)
        both = Expr("pair", self.dtype, (value, before))
        others = tuple(axis for axis in axes if axis is not self.scanned and axis.extent > 1)
        found = Algorithm(out, ix.flatten(idx, node.shape), others, (self.scanned,), both)
        self.algorithm = coalesce(found)
        inner = (*self.algorithm.outer, *self.algorithm.inner)
        alone = Algorithm(out, self.algorithm.index, (), inner, self.algorithm.value.src[0])
        if crossed(alone, units):
            raise Cut(node.src[0])
        terms = self.algorithm.index.terms
        near = (axis for axis in self.algorithm.outer if terms.get(axis) == 1)
        self.column = next((axis for axis in near if axis.extent >= MIN_COLUMNS), None)
        self.acc = Ref("acc", self.dtype, 1, "register")

    def join(self, a: Expr, b: Expr) -> Expr:
        """a, which comes before b, with b."""
        return Expr(ex.COMBINE[self.kind], self.dtype, (a, b))

    def start(self, env: dict[Var, Index], segment: Index) -> Expr:
        """What is before a segment."""
        if self.segments == 1:
            return self.identity
        guard = ex.bounded([(segment, 1, self.segments)])
        here = {**env, self.segment: segment - 1}
        value = ex.Rewriter(here, guard=guard).expr(self.algorithm.value.src[1])
        return ex.guarded(value, guard, self.identity)

    def load(self, env: dict[Var, Index], at: Index, guard: Valid) -> Expr:
        """The element at a place of the scanned axis."""
        here = {**env, self.scanned: at}
        return ex.Rewriter(here, guard=guard).expr(self.algorithm.value.src[0])

    def put(self, env: dict[Var, Index], at: Index, value: Expr, guard: Valid) -> Store:
        """The store of its running reduction."""
        place = self.algorithm.index.substitute({**env, self.scanned: at})
        return Store(self.out, place, value, guard)

    def columns(self, target: Target) -> tuple[Loop, list[Ref], int]:
        """A lane for each segment of each column."""
        axes = [axis for axis in self.algorithm.outer if axis is not self.column]
        axes += [self.column] if self.column else []
        extents = [axis.extent for axis in axes]
        item = Var("g", prod(extents) * self.segments)
        *point, column = extents
        parts = (*point, self.segments, column)
        *lead, segment, last = ix.unflatten(ix.var(item), parts)
        env = dict(zip(axes, (*lead, last), strict=True))
        some = Ref("some", self.dtype, UNROLL, "register")
        step, slot = Var("j", -(-self.span // UNROLL)), Var("u", UNROLL)
        inside = ix.var(step) * UNROLL + ix.var(slot)
        at = segment * self.span + inside
        guard = ex.bounded([(inside, 0, self.span), (at, 0, self.length)])
        running = self.join(ex.load(self.acc, ZERO), ex.load(some, ix.var(slot)))
        body = (
            Loop(slot, "unroll", (Store(some, ix.var(slot), self.load(env, at, guard)),)),
            Loop(slot, "unroll", (
                Store(self.acc, ZERO, running),
                self.put(env, at, ex.load(self.acc, ZERO), guard))),
        )  # fmt: skip
        loops = (
            Store(self.acc, ZERO, self.start(env, segment)),
            Loop(step, "serial" if step.extent > 1 else "unroll", body),
        )
        return Loop(item, "item", loops), [self.acc, some], BLOCK

    def rows(self, target: Target) -> tuple[Loop, list[Ref], int]:
        """A team of lanes for each segment of each row."""
        widest = max(
            (e.dtype.itemsize for e in ex.walk([self.algorithm.value]) if e.op == "load"),
            default=1,
        )
        size = max(widest, self.dtype.itemsize)
        width = target.width(size)
        return _Rows(self, width if width <= self.length else 1, target.wave_lanes).made()


class _Rows:
    """The statements of one lane of a team; see the module."""

    def __init__(self, scan: _Scan, width: int, wave: int) -> None:
        self.scan, self.width = scan, width
        vectors = -(-scan.span // width)
        self.team = min(1 << (vectors - 1).bit_length(), BLOCK)
        self.block = max(self.team, wave) if self.team >= wave else BLOCK
        self.chunk = self.team * width
        self.lane = Var("lane", self.block)
        at, dtype = ix.var(self.lane), scan.dtype
        axes = scan.algorithm.outer
        points = prod(axis.extent for axis in axes) * scan.segments
        together = self.block // self.team
        self.grid = Var("g", -(-points // together))
        place = ix.var(self.grid) * together + at // self.team
        self.exists = ex.bounded([(place, 0, points)])
        extents = (*(axis.extent for axis in axes), scan.segments)
        *lead, self.segment = ix.unflatten(place, extents)
        self.env = dict(zip(axes, lead, strict=True))
        self.member = at % self.team
        self.own = Ref("own", dtype, width, "register")
        self.prefix = Prefix(scan.kind, dtype, self.lane, self.team, wave)
        self.rounds = Var("t", -(-scan.span // self.chunk))

    def made(self) -> tuple[Loop, list[Ref], int]:
        """The grid, its locals and its block."""
        start = Store(self.prefix.carry, ZERO, self.scan.start(self.env, self.segment))
        again = Loop(self.rounds, "serial" if self.rounds.extent > 1 else "unroll", self._round())
        lanes = Loop(self.lane, "lane", (start, again))
        return Loop(self.grid, "grid", (lanes,)), [self.own, *self.prefix.refs], self.block

    def _round(self) -> tuple[Stmt, ...]:
        """One chunk; where rows end inside of one, a branch that is uniform over the lanes."""
        length, last = self.scan.length, self.scan.length - self.chunk + 1
        start = self.segment * self.scan.span + ix.var(self.rounds) * self.chunk
        if self.rounds.extent * self.scan.segments == 1:
            return self._step(tight=length != self.chunk or bool(self.exists))
        whole = ex.bounded([(start, 0, last)])
        if not whole:
            return self._step(tight=False)
        ragged = If(((start, last, length),), self._step(tight=True))
        return (If(whole, self._step(tight=False)), *((ragged,) if length % self.chunk else ()))

    def _step(self, *, tight: bool) -> tuple[Stmt, ...]:
        """A chunk; `tight`: not all of its elements exist."""
        return (
            self._vectors(self._load, tight=tight),
            *self._within_lane(),
            *self.prefix.stmts(ix.var(self.rounds)),
            self._vectors(self._put, tight=tight),
        )

    def _vectors(self, make: Callable[[Index, Index, Valid], Store], *, tight: bool) -> Stmt:
        """`make` for the lane's elements; those that do not exist are neither read nor written."""
        slot, length = Var("l", self.width), self.scan.length
        inside = ix.var(self.rounds) * self.chunk + self.member * self.width
        first = self.segment * self.scan.span + inside
        at = first + ix.var(slot)
        end = first if length % self.width == 0 else at
        guard = (*self.exists, *ex.bounded([(end, 0, length)])) if tight else ()
        loop = "vector" if self.width > 1 else "unroll"
        return Loop(slot, loop, (make(ix.var(slot), at, guard),))

    def _load(self, slot: Index, at: Index, guard: Valid) -> Store:
        return Store(self.own, slot, self.scan.load(self.env, at, guard))

    def _put(self, slot: Index, at: Index, guard: Valid) -> Store:
        value = self.scan.join(ex.load(self.prefix.before, ZERO), ex.load(self.own, slot))
        return self.scan.put(self.env, at, value, guard)

    def _within_lane(self) -> tuple[Stmt, ...]:
        """The lane's own elements become their running reduction, the last is its total."""
        slot, last = Var("s", self.width - 1), ex.load(self.own, ix.const(self.width - 1))
        before, here = (ex.load(self.own, ix.var(slot) + step) for step in (0, 1))
        store = Store(self.own, ix.var(slot) + 1, self.scan.join(before, here))
        return (Loop(slot, "unroll", (store,)), Store(self.prefix.total, ZERO, last))
