"""Matrix products of any shape: out[b, m, n] = epilogue(sum over k of A[b, m, k] * B[b, k, n]).

The operands are expressions, so a transposed, converted or strided-window (convolution) operand
is packed as it is read. Blocking in BLIS's order (Van Zee and van de Geijn, "BLIS: A Framework for
Rapidly Instantiating BLAS Functionality", 2015): a B block of KC x NC and an A block of MC x KC
are packed into panels; the micro-kernel keeps an MR x NR tile of the result in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Protocol

from compilers import expr as ex
from compilers import index as ix
from compilers.graph import Node
from compilers.index import Index, Var
from compilers.ir import Expr, If, Loop, Ref, Stmt, Store
from compilers.lower.nest import Nest
from compilers.lower.tensorise import paired
from compilers.plan.algorithm import Algorithm

MIN_WORK = 1 << 13
"""Fewest multiplications for which operands are packed."""
B_BLOCK_BYTES = 8 << 20
FUSED = frozenset({"fma", "neon"})
"""Features with a fused multiply-add instruction; without one, `fma` is a slow library call."""


@dataclass(frozen=True, slots=True)
class Blocking:
    """Largest blocks in elements: a B panel (kc x nr) and an A block (mc x kc) share the
    second-level cache, a B block (kc x nc) is for the third.

    # measured: EPYC Zen 5 (1 MiB second level), float32: kc 384 is 6 % slower, 2048 no faster.
    """

    kc: int = 1024
    mc: int = 96
    nc: int = 2048


DEFAULT_BLOCKING = Blocking()


class Machine(Protocol):
    """The inputs of the blocking."""

    @property
    def vector_bytes(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def features(self) -> frozenset[str]: ...
    @property
    def blocking(self) -> Blocking: ...


@dataclass(frozen=True, slots=True)
class Contraction:
    """The operands and the axes: `m` only in a, `n` only in b, `k` summed, `batch` the rest."""

    a: Expr
    b: Expr
    batch: tuple[Var, ...]
    m: tuple[Var, ...]
    n: tuple[Var, ...]
    k: tuple[Var, ...]
    multiply: str = "fma"
    """How a product is added to the accumulator: fma, mul (and add, for integers) or dot2."""


def contraction(algorithm: Algorithm) -> Contraction | None:
    """The algorithm seen as a matrix product, or None when it is none or too small to matter."""
    if len(algorithm.reductions) != 1 or algorithm.inner:
        return None
    reduction = algorithm.reductions[0]
    if reduction.kind != "add" or reduction.value.op != "mul":
        return None
    a, b = reduction.value.src
    in_a, in_b = ex.variables(a), ex.variables(b)
    if not all(axis in in_a and axis in in_b for axis in reduction.axes):
        return None
    m = tuple(axis for axis in algorithm.outer if axis in in_a and axis not in in_b)
    n = tuple(axis for axis in algorithm.outer if axis in in_b and axis not in in_a)
    batch = tuple(axis for axis in algorithm.outer if (axis in in_a) == (axis in in_b))
    if any(algorithm.index.terms.get(axis) == 1 for axis in m):
        a, b, m, n = b, a, n, m
    rows, columns, depth = (_extent(axes) for axes in (m, n, reduction.axes))
    if min(rows, columns) < 4 or rows * columns * depth < MIN_WORK:
        return None
    multiply = "fma" if a.dtype.kind == "f" else "mul"
    return Contraction(a, b, batch, m, n, reduction.axes, multiply)


def is_product(node: Node) -> bool:
    """Whether a "reduce" node sums products of which each operand is used again along an axis: what
    becomes a contraction, seen in the graph, before it is known what a kernel computes."""
    kind, _ = node.arg
    (source,) = node.src
    return kind == "add" and source.op == "mul" and any(s.op == "expand" for s in source.src)


def _extent(axes: Sequence[Var]) -> int:
    return prod(axis.extent for axis in axes)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Block sizes in elements; `lanes` per vector, `nr` = vectors * lanes columns per tile."""

    mr: int
    vectors: int
    lanes: int
    mc: int
    nc: int
    kc: int


def tiles(found: Contraction, machine: Machine, itemsize: int, splittable: bool) -> Tiles:
    """Whole panels, and blocks of equal size rather than full ones and a remainder."""
    rows, columns, depth = _extent(found.m), _extent(found.n), _extent(found.k)
    most, wide = machine.blocking, machine.vector_bytes >= 64
    lanes = max(min(machine.vector_bytes // itemsize, 1 << (columns - 1).bit_length()), 1)
    vectors = 2 if columns > lanes else 1
    mr = min(rows, 12 if wide else 6)
    nr = lanes * vectors
    kc = _share(depth, most.kc, 1) if splittable else depth
    mc = _share(rows, most.mc // mr * mr, mr)
    widest = max(min(most.nc, B_BLOCK_BYTES // (itemsize * kc)) // nr * nr, nr)
    if _extent(found.batch) < machine.threads:
        widest = min(widest, _up(-(-columns // machine.threads), nr))
    return Tiles(mr, vectors, lanes, mc, _share(columns, widest, nr), kc)


def _share(extent: int, most: int, unit: int) -> int:
    """Equal blocks of at most `most`, rounded up to `unit`."""
    blocks = -(-extent // most)
    return _up(-(-extent // blocks), unit)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def lower_contraction(algorithm: Algorithm, machine: Machine) -> tuple[Loop, list[Ref]]:
    """The blocked, packed loop nest, and its scratch and register tiles."""
    found = contraction(algorithm)
    if found is None:
        raise ValueError("not a contraction")
    if not machine.features & FUSED:
        found = replace(found, multiply="mul")
    pairs = paired((found.a, found.b), found.k, machine.features)
    if pairs is not None:
        a, b, axis = pairs
        found = replace(found, a=a, b=b, k=(axis,), multiply="dot2")
    return _Product(algorithm, found, machine).lower()


class _Product:
    """One lowering in progress; the fields are the loops, outermost first."""

    def __init__(self, algorithm: Algorithm, found: Contraction, machine: Machine) -> None:
        self.algorithm, self.found = algorithm, found
        self.result = algorithm.reductions[0].result
        self.dtype = self.result.dtype
        size = tiles(found, machine, self.dtype.itemsize, self.dtype is algorithm.out.dtype)
        self.size = size
        nest = self.nest = Nest((*found.batch, *found.m, *found.n, *found.k))
        loops = dict(zip(nest.axes, nest.loops, strict=True))
        m, n, k = (
            nest.fuse([loops[axis] for axis in axes], name)
            for axes, name in ((found.m, "m"), (found.n, "n"), (found.k, "k"))
        )
        self.nc, nb = nest.split(n, size.nc)
        self.jr, nr = nest.split(nb, size.lanes * size.vectors)
        self.jv, self.lane = nest.split(nr, size.lanes)
        self.kc, self.kk = nest.split(k, size.kc)
        self.mc, mb = nest.split(m, size.mc)
        self.ir, self.mr = nest.split(mb, size.mr)
        outer = [loops[axis] for axis in found.batch]
        nest.reorder(
            [
                *outer,
                self.nc,
                self.kc,
                self.mc,
                self.jr,
                self.ir,
                self.kk,
                self.mr,
                self.jv,
                self.lane,
            ]
        )
        self.grid = nest.fuse([*outer, self.nc], "g")
        nest.bind(self.grid)
        nest.unroll(self.mr, self.jv)
        if size.lanes > 1:
            nest.vectorise(self.lane)
        self.env = nest.env()
        self.acc = Ref("acc", self.dtype, size.mr * size.vectors * size.lanes, "register")

    def lower(self) -> tuple[Loop, list[Ref]]:
        size, nest = self.size, self.nest
        packed = self.found.a.dtype
        a_tile = Ref("a_tile", packed, size.mc * size.kc, "scratch", 0)
        b_tile = Ref(
            "b_tile", packed, size.nc * size.kc, "scratch", _up(a_tile.size * packed.itemsize, 64)
        )
        a, pack_a = nest.stage(self.found.a, a_tile, (self.ir, self.kk, self.mr))
        b, pack_b = nest.stage(self.found.b, b_tile, (self.jr, self.kk, self.jv, self.lane))
        micro = nest.wrap([self.kk, self.mr, self.jv, self.lane], [self._multiply(a, b)])
        tile = [
            *self._tile(lambda slot: Store(self.acc, slot, ex.const(0, self.dtype))),
            *micro,
            *self._write_back(),
        ]
        panel = self._where_panel_exists(tile)
        block = nest.wrap([self.mc], [*pack_a, *nest.wrap([self.jr, self.ir], panel)])
        body = nest.wrap([self.grid], nest.wrap([self.kc], [*pack_b, *block]))
        loop = body[0]
        if not isinstance(loop, Loop):
            raise TypeError("a nest is a loop")
        return loop, [self.acc, a_tile, b_tile]

    def _slot(self) -> Index:
        tile_row = ix.var(self.mr) * self.size.vectors + ix.var(self.jv)
        return tile_row * self.size.lanes + ix.var(self.lane)

    def _multiply(self, a: Expr, b: Expr) -> Store:
        slot = self._slot()
        old = ex.load(self.acc, slot)
        if self.found.multiply != "mul":
            return Store(self.acc, slot, Expr(self.found.multiply, self.dtype, (a, b, old)))
        product = Expr("mul", self.dtype, (a, b))
        return Store(self.acc, slot, Expr("add", self.dtype, (old, product)))

    def _tile(self, store: Callable[[Index], Store]) -> tuple[Stmt, ...]:
        """A store for every element of the register tile."""
        return self.nest.wrap([self.mr, self.jv, self.lane], [store(self._slot())])

    def _where_panel_exists(self, body: Sequence[Stmt]) -> list[Stmt]:
        """Skip row panels past the last row: blocks are whole, the matrix need not be."""
        start = ix.var(self.mc) * self.size.mc + ix.var(self.ir) * self.size.mr
        column = self.env[self.found.n[-1]] if len(self.found.n) == 1 else None
        conditions = [(start, 0, _extent(self.found.m))]
        if column is not None:
            first = column.substitute({self.jv: ix.const(0), self.lane: ix.const(0)})
            conditions.append((first, 0, _extent(self.found.n)))
        valid = ex.bounded(conditions)
        return [If(valid, tuple(body))] if valid else list(body)

    def _write_back(self) -> list[Stmt]:
        """Tile to memory: the first K block stores, later ones add, the last one finishes."""
        blocks = self.kc.extent
        if blocks == 1:
            return list(self._finish(lambda acc, _: acc))
        kc = ix.var(self.kc)

        def add(acc: Expr, partial: Expr) -> Expr:
            return Expr("add", self.dtype, (partial, acc))

        steps: list[Stmt] = [If(((kc, 0, 1),), self._finish(lambda acc, _: acc, raw=True))]
        if blocks > 2:
            steps.append(If(((kc, 1, blocks - 1),), self._finish(add, raw=True)))
        return [*steps, If(((kc, blocks - 1, blocks),), self._finish(add))]

    def _finish(self, join: Callable[[Expr, Expr], Expr], raw: bool = False) -> tuple[Stmt, ...]:
        """Store join(tile, what `out` holds), through the epilogue unless `raw`."""
        guard = self.nest.guard((*self.found.batch, *self.found.m, *self.found.n))
        at = self.algorithm.index.substitute(self.env)

        def store(slot: Index) -> Store:
            acc = ex.load(self.acc, slot)
            total = join(acc, ex.load(self.algorithm.out, at, guard))
            if not raw:
                rewriter = ex.Rewriter(self.env, {self.result: total}, guard)
                total = rewriter.expr(self.algorithm.value)
            return Store(self.algorithm.out, at, total, guard)

        return self._tile(store)
