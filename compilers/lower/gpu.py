"""Algorithm -> Kernel for a GPU: which lane of which workgroup does what.

    map      one lane for a vector of neighbours, as wide as a lane loads at once; lanes that are
             neighbours work on neighbouring vectors
    rows     a team of neighbouring lanes for each row
    columns  neighbouring lanes on neighbouring columns; a team of them, a stride apart, for each

A team is up to a workgroup. Each of its lanes reduces its share; shares are combined by swaps in
a wave, and through shared memory across waves, or between any lanes where there are no swaps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from compilers import dtype as dt
from compilers import expr as ex
from compilers import index as ix
from compilers.dtype import DType
from compilers.gpu_target import BLOCK as BLOCK
from compilers.gpu_target import GpuTarget
from compilers.index import Dyn, Index, Var
from compilers.ir import Barrier, Expr, If, Kernel, Loop, Ref, Stmt, Store, Valid
from compilers.lower.columns import column_axis
from compilers.lower.sweep import accumulate, store
from compilers.math.build import cast, op
from compilers.plan.algorithm import Algorithm, Reduction
from compilers.plan.coalesce import rank_by_stride

WIDE_ROW_VECTORS = 8
"""A row with more vectors than this for each lane of a wave has a whole workgroup."""
COLUMN_TEAM = 8
PLAYED_LANES = 8
"""Lanes that a processor plays by one vector, where their number is not known."""

_Emit = Callable[[dict[Var, Index], Valid, Index, Var], Store]
"""(environment, guard, slot, lane of the vector) -> a store."""


def lower_map(algorithm: Algorithm, vector: int, gpu: GpuTarget) -> Kernel:
    """Elementwise work. The kernel has no name and no parameters yet."""
    order = rank_by_stride(algorithm.inner, algorithm.value, [algorithm.index] * 2)
    *lead, last = order or [Var("point", 1)]
    width = min(vector, 1 << (last.extent.bit_length() - 1))
    parts = -(-last.extent // width)
    extents = [axis.extent for axis in lead]
    item = Var("g", prod(extents) * parts)
    *outer, part = ix.unflatten(ix.var(item), (*extents, parts))
    env = dict(zip(lead, outer, strict=True))
    whole = last.extent // width

    def cover(lanes: int, guarded: bool) -> tuple[Stmt, ...]:
        lane = Var("l", lanes)
        at = part * width + ix.var(lane)
        guard = ex.bounded([(at, 0, last.extent)]) if guarded else ()
        body = (store(algorithm, {**env, last: at}, guard, lane, {}),)
        return (Loop(lane, "vector" if lanes > 1 else "unroll", body),)

    body = cover(width, False)
    if whole != parts:
        body = (
            If(((part, 0, whole),), body),
            If(((part, whole, parts),), cover(width, True)),
        )
    return Kernel("", (), (), Loop(item, "item", body), _block(item.extent, gpu))


def _block(lanes: int, gpu: GpuTarget) -> int:
    """A whole workgroup, or as many waves as there is work for."""
    return min(gpu.block, -(-lanes // gpu.team_lanes) * gpu.team_lanes)


@dataclass(frozen=True, slots=True)
class Team:
    """How the lanes of a workgroup share points: `size` lanes for each, `stride` lanes apart."""

    block: int
    size: int
    stride: int
    wave: int
    """Neighbouring lanes that can swap values; 1: none."""

    @property
    def points(self) -> int:
        """Points that a workgroup works on."""
        return self.block // self.size

    def member(self, lane: Index) -> Index:
        """A lane's number in its team."""
        return (lane // self.stride) % self.size

    def point(self, lane: Index) -> Index:
        """The number of a lane's point in its workgroup."""
        if self.stride == 1:
            return lane // self.size
        return lane % self.stride


def row_team(extent: int, vector: int, gpu: GpuTarget) -> Team:
    """For rows of so many elements."""
    vectors, wave, block = -(-extent // vector), gpu.team_lanes, gpu.block
    if gpu.costly_loads:
        return _played_team(vectors, gpu)
    if vectors >= WIDE_ROW_VECTORS * wave:
        return Team(block, block, 1, gpu.swap_lanes)
    size = min(1 << (vectors - 1).bit_length(), wave)
    return Team(block if size < wave else wave, size, 1, gpu.swap_lanes)


def _played_team(vectors: int, gpu: GpuTarget) -> Team:
    """The lanes of one of a processor's vectors. It plays those of a workgroup vector by vector, up
    to a barrier: with more of them for a row, it would pass over it as often, in wide strides."""
    lanes = gpu.swap_lanes if gpu.swap_lanes > 1 else min(PLAYED_LANES, gpu.block)
    size = min(1 << (vectors - 1).bit_length(), lanes)
    alone = vectors >= WIDE_ROW_VECTORS * lanes
    return Team(lanes if alone else max(gpu.block, lanes), size, 1, gpu.swap_lanes)


def column_team(columns: int, depth: int, gpu: GpuTarget) -> Team:
    """For so many neighbouring columns of so many elements each."""
    stride = min(1 << (columns - 1).bit_length(), gpu.team_lanes)
    size = min(COLUMN_TEAM, 1 << (depth.bit_length() - 1), gpu.most_lanes // stride)
    block = max(size * stride, gpu.team_lanes)
    return Team(block, block // stride, stride, gpu.swap_lanes)


def lower_reduction(algorithm: Algorithm, vector: int, gpu: GpuTarget) -> Kernel:
    """Reductions, and what is computed from them."""
    column = column_axis(algorithm)
    if column is not None:
        depth = max(prod(axis.extent for axis in r.axes) for r in algorithm.reductions)
        team = column_team(column.extent, depth, gpu)
        return _Reductions(algorithm, team, 1, column).kernel()
    longest = max(
        (order[-1].extent for r in algorithm.reductions if (order := _order(r))), default=1
    )
    width = min(vector, 1 << (longest.bit_length() - 1))
    return _Reductions(algorithm, row_team(longest, width, gpu), width, None).kernel()


def _order(reduction: Reduction) -> list[Var]:
    return rank_by_stride(reduction.axes, reduction.value)


@dataclass(slots=True)
class _Meeting:
    """Where lanes without swaps exchange values of a dtype: two for each lane of the workgroup."""

    shared: Ref
    turns: int = 0


class _Reductions:
    """The statements of one lane; see the module."""

    def __init__(self, algorithm: Algorithm, team: Team, width: int, column: Var | None) -> None:
        self.algorithm, self.team, self.width = algorithm, team, width
        self.lane = Var("lane", team.block)
        outer = [axis for axis in algorithm.outer if axis is not column]
        self.points = prod(axis.extent for axis in outer)
        at = ix.var(self.lane)
        if column is None:
            self.grid = Var("g", -(-self.points // team.points))
            place = ix.var(self.grid) * team.points + team.point(at)
            self.guard = ex.bounded([(place, 0, self.points)])
            self.env = self._unflatten(place, outer)
        else:
            parts = -(-column.extent // team.points)
            self.grid = Var("g", self.points * parts)
            rest, part = ix.unflatten(ix.var(self.grid), (self.points, parts))
            self.env = self._unflatten(rest, outer)
            place = part * team.points + team.point(at)
            self.env[column] = place
            self.guard = ex.bounded([(place, 0, column.extent)])
        self.local: list[Ref] = []
        self.results: dict[Expr, Expr] = {}
        self.meetings: dict[DType, _Meeting] = {}

    @staticmethod
    def _unflatten(place: Index, axes: Sequence[Var]) -> dict[Var, Index]:
        extents = tuple(axis.extent for axis in axes)
        return dict(zip(axes, ix.unflatten(place, extents), strict=True))

    def kernel(self) -> Kernel:
        body: list[Stmt] = []
        for number, reduction in enumerate(self.algorithm.reductions):
            acc = Ref(f"acc{number}", reduction.value.dtype, self.width, "register")
            self.local.append(acc)
            body += self._reduce(reduction, acc)
            body += self._meet(acc, reduction.kind, number)
            self.results[reduction.result] = ex.load(acc, ix.const(0))
        body += self._finish()
        lanes = Loop(self.lane, "lane", tuple(body))
        return Kernel("", (), tuple(self.local), Loop(self.grid, "grid", (lanes,)), self.team.block)

    def _spread(self, axes: Sequence[Var], emit: _Emit, env: dict[Var, Index]) -> tuple[Stmt, ...]:
        """Cover `axes` with the team: the last one is shared out, the others are loops."""
        *lead, last = axes or [Var("point", 1)]
        loops = [Var(axis.name, axis.extent) for axis in lead]
        env.update((axis, ix.var(loop)) for axis, loop in zip(lead, loops, strict=True))
        result = self._share(last, emit, env)
        for loop in reversed(loops):
            result = (Loop(loop, "serial", result),)
        return result

    def _share(self, last: Var, emit: _Emit, env: dict[Var, Index]) -> tuple[Stmt, ...]:
        member, size = self.team.member(ix.var(self.lane)), self.team.size
        span = size * self.width
        rounds = last.extent // span
        result: list[Stmt] = []
        for first, count in ((0, rounds), (rounds, int(rounds * span < last.extent))):
            if not count:
                continue
            again, lane = Var("t", count), Var("l", self.width)
            start = (ix.var(again) + first) * span + member * self.width
            at = start + ix.var(lane)
            inside = ex.bounded([(at, 0, last.extent)])
            guard = (*self.guard, *inside)
            body: tuple[Stmt, ...] = (emit({**env, last: at}, guard, ix.var(lane), lane),)
            if self.width > 1:
                body = (Loop(lane, "vector", body),)
            else:
                body = (Loop(lane, "unroll", body),)
            result.append(Loop(again, "serial" if count > 1 else "unroll", body))
        return tuple(result)

    def _reduce(self, reduction: Reduction, acc: Ref) -> list[Stmt]:
        """A lane's share, in `width` accumulators, then in the first of them."""
        kind, lane = reduction.kind, Var("l", self.width)
        start = ex.const(ex.identity(kind, acc.dtype), acc.dtype)
        loop_kind = "vector" if self.width > 1 else "unroll"

        def emit(env: dict[Var, Index], guard: Valid, slot: Index, lane: Var) -> Store:
            value = ex.Rewriter(env, self.results, guard).expr(reduction.value)
            return accumulate(kind, acc, slot, [value], guard)

        result: list[Stmt] = [Loop(lane, loop_kind, (Store(acc, ix.var(lane), start),))]
        result += self._spread(_order(reduction), emit, dict(self.env))
        for level in reversed(range(self.width.bit_length() - 1)):
            half = Var("l", 1 << level)
            at = ix.var(half)
            other = ex.load(acc, at + half.extent)
            body = (accumulate(kind, acc, at, [other], ()),)
            result.append(Loop(half, "vector" if half.extent > 1 else "unroll", body))
        return result

    def _meet(self, acc: Ref, kind: str, number: int) -> list[Stmt]:
        """Combine the shares of a team, in all of its lanes."""
        team, zero = self.team, ix.const(0)
        here = ex.load(acc, zero)
        reach = team.size * team.stride
        if team.wave == 1:
            return [s for m in masks(team.stride, reach) for s in self._exchanged(acc, kind, m)]
        if reach <= team.wave:
            return [self._swapped(acc, kind, m) for m in masks(team.stride, reach)]
        inside = list(masks(team.stride, team.wave)) if team.stride < team.wave else []
        result: list[Stmt] = [self._swapped(acc, kind, mask) for mask in inside]
        waves = team.block // team.wave
        kept = min(team.stride, team.wave)
        shared = Ref(f"meet{number}", acc.dtype, waves * kept, "shared")
        self.local.append(shared)
        at = ix.var(self.lane)
        slot = (at // team.wave) * kept + at % kept
        first = ex.bounded([(at % team.wave, 0, kept)])
        result += [Store(shared, slot, here, first), Barrier()]
        result.append(Store(acc, zero, ex.load(shared, at % kept)))
        for wave in range(1, waves):
            other = ex.load(shared, at % kept + wave * kept)
            result.append(accumulate(kind, acc, zero, [other], ()))
        return result

    def _swapped(self, acc: Ref, kind: str, mask: int) -> Store:
        here = ex.load(acc, ix.const(0))
        return accumulate(kind, acc, ix.const(0), [Expr("swap", acc.dtype, (here,), mask)], ())

    def _exchanged(self, acc: Ref, kind: str, mask: int) -> list[Stmt]:
        """The same without swaps: every lane stores its value and loads that of `lane ^ mask`.

        Two halves of shared memory alternate: a lane that stores to a half again has passed the
        barrier of the other one, before which all lanes have read the first.
        """
        block, zero = self.team.block, ix.const(0)
        if acc.dtype not in self.meetings:
            shared = Ref(f"meet_{acc.dtype.name}", acc.dtype, 2 * block, "shared")
            self.local.append(shared)
            self.meetings[acc.dtype] = _Meeting(shared)
        meeting = self.meetings[acc.dtype]
        shared, half = meeting.shared, meeting.turns % 2 * block
        meeting.turns += 1
        lane = cast(Expr("index", dt.int64, (), ix.var(self.lane)), dt.int32)
        other = Index({Dyn(op("xor", lane, mask), 0, block - 1): 1}, half)
        return [
            Store(shared, ix.var(self.lane) + half, ex.load(acc, zero)),
            Barrier(),
            accumulate(kind, acc, zero, [ex.load(shared, other)], ()),
        ]

    def _finish(self) -> tuple[Stmt, ...]:
        algorithm = self.algorithm
        order = rank_by_stride(algorithm.inner, algorithm.value, [algorithm.index] * 2)
        if not order:
            member = self.team.member(ix.var(self.lane))
            guard = (*self.guard, *ex.bounded([(member, 0, 1)]))
            return (store(algorithm, self.env, guard, None, self.results),)

        def emit(env: dict[Var, Index], guard: Valid, slot: Index, lane: Var) -> Store:
            made = store(algorithm, env, guard, lane, self.results)
            return replace(made, streaming=False)

        return self._spread(order, emit, dict(self.env))


def masks(first: int, end: int) -> list[int]:
    """Powers of two from `first` up to below `end`."""
    return [1 << n for n in range(first.bit_length() - 1, end.bit_length() - 1)]
