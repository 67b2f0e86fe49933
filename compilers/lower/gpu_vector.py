"""The loop nest of a product of a few rows with a large matrix.

See `compilers/lower/vector_product.py`.

    for each iteration: load the matrix and the rows into registers, all of it at once; multiply
    swaps inside a wave and shared memory across waves join the lanes' sums; epilogue, store

The last workgroup of a row of them begins so that it ends with the last column: its overlap with
the one before it is computed by both and stored by one, so that no load has a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from compilers import expr as ex
from compilers import index as ix
from compilers.index import Index, Var
from compilers.ir import Barrier, Expr, If, Kernel, Loop, Ref, Stmt, Store, Valid
from compilers.lower.sweep import accumulate
from compilers.lower.vector_product import Share, VectorProduct
from compilers.plan.algorithm import Algorithm
from compilers.render.facts import FactTable

CHAINS = 32
"""Sums of a lane that are joined at the end, where it sums along the matrix's rows: enough to hide
the latency of a multiplication."""

WAVES = 4
"""Of a SIMD: with eight loads of 16 bytes in flight, more would only take registers from them."""


def lower_vector(
    algorithm: Algorithm, found: VectorProduct, lanes: Share, wave: int, widest: int | None = None
) -> Kernel:
    """The kernel, without a name and parameters. `widest`: elements of the language's longest
    vector."""
    return _Vector(algorithm, found, lanes, wave, widest).kernel()


class _Vector:
    """The statements of one lane.

    An iteration has loads number `t` along depth, columns `c` and neighbours `l` of a lane;
    `l` counts columns where the matrix is contiguous across, else depth.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        found: VectorProduct,
        lanes: Share,
        wave: int,
        widest: int | None,
    ) -> None:
        self.algorithm, self.found, self.share, self.wave = algorithm, found, lanes, wave
        self.widest = widest
        self.dtype = algorithm.reductions[0].result.dtype
        n, batches = found.column.extent, tuple(axis.extent for axis in found.batch)
        blocks = -(-n // lanes.group)
        self.grid = Var("g", prod(batches) * blocks)
        *batch, block = ix.unflatten(ix.var(self.grid), (*batches, blocks))
        self.env = dict(zip(found.batch, batch, strict=True))
        self.lane = Var("lane", lanes.block)
        self.near, self.far = ix.var(self.lane) % lanes.near, ix.var(self.lane) // lanes.near
        self.overlap = blocks * lanes.group - n
        last = block // (blocks - 1) if self.overlap else ix.const(0)
        self.base = block * lanes.group - last * self.overlap
        self.hidden = (last * -1 + 1) * self.overlap
        self.t, self.l = Var("t", lanes.turns), Var("l", lanes.width)
        self.c = Var("c", lanes.columns if found.along else 1)
        self.row = Var("row", found.row_count)
        kept = self.row.extent * self.c.extent
        most = CHAINS // kept if found.along else lanes.width
        self.chains = min(lanes.width, 1 << max(most.bit_length() - 1, 0))
        self.acc = Ref("acc", self.dtype, kept * self.chains, "register")
        self.staged: list[Ref] = []

    def kernel(self) -> Kernel:
        zero = ex.const(ex.identity("add", self.dtype), self.dtype)
        body = self._sums(lambda at: Store(self.acc, at, zero))
        k, span = self.found.depth.extent, self.share.span
        turn = Var("turn", k // span)
        if turn.extent:
            kind = "serial" if turn.extent > 1 else "unroll"
            body.append(Loop(turn, kind, tuple(self._turn(ix.var(turn) * span, False))))
        if k % span:
            body += self._turn(ix.const(k - k % span), True)
        sets, shares = self._sets()
        shared = Ref("sums", self.dtype, sets * shares * self._kept(), "shared")
        body += self._join(shared)
        body += self._finish(shared, shares)
        refs = (self.acc, *self.staged, shared)
        lanes = Loop(self.lane, "lane", tuple(body))
        grid = Loop(self.grid, "grid", (lanes,))
        return Kernel("", (), refs, grid, self.share.block, WAVES)

    def _sums(self, make: Callable[[Index], Store]) -> list[Stmt]:
        """A store for each sum of the lane."""
        first, at = Var("s", self.acc.size // self.chains), Var("l", self.chains)
        return [_loops((first, at), make(ix.var(first) * self.chains + ix.var(at)))]

    # one iteration

    def _place(self, start: Index) -> dict[Var, Index]:
        """The axes at point (row, t, c, l) of an iteration that begins at `start`."""
        share, found = self.share, self.found
        t, c, at = ix.var(self.t), ix.var(self.c), ix.var(self.l)
        if found.along:
            k = start + (t * share.near + self.near) * share.width + at
            n = self.base + self.far * share.columns + c
        else:
            k = start + self.far * share.turns + t
            n = self.base + self.near * share.width + at
        extents = tuple(axis.extent for axis in found.rows)
        rows = dict(zip(found.rows, ix.unflatten(ix.var(self.row), extents), strict=True))
        return {**self.env, **rows, found.column: n, found.depth: k}

    def _inside(self, k: Index) -> Valid:
        """Whether a point's depth exists; one answer for a run of neighbours where there is one."""
        run, depth = self.l if self.found.along else self.t, self.found.depth.extent
        if depth % run.extent == 0:
            k = k.substitute({run: ix.const(0)})
        return ex.bounded([(k, 0, depth)])

    def _turn(self, start: Index, guarded: bool) -> list[Stmt]:
        env, found = self._place(start), self.found
        guard = self._inside(env[found.depth]) if guarded else ()
        replace: dict[Expr, Expr] = {}
        reads = [read for value in (found.few, found.many) for read in _reads(value)]
        moving = [read for read in reads if found.depth in ex.variables(read)]
        body = [self._load(read, env, guard, replace) for read in moving]
        body.append(Barrier(meet=False))
        rewriter = ex.Rewriter(env, replace, guard)
        few, many = (rewriter.expr(value) for value in (found.few, found.many))
        part, chain = Var("p", self.l.extent // self.chains), Var("chain", self.chains)
        at = ix.var(part) * self.chains + ix.var(chain)
        slot = (ix.var(self.row) * self.c.extent + ix.var(self.c)) * self.chains + ix.var(chain)
        old = ex.load(self.acc, slot)
        if self.dtype.kind == "f":
            total = Expr("fma", self.dtype, (few, many, old))
        else:
            total = Expr("add", self.dtype, (old, Expr("mul", self.dtype, (few, many))))
        total = ex.Rewriter({self.l: at}).expr(ex.guarded(total, guard, old))
        body.append(_loops((self.t, self.c, self.row, part, chain), Store(self.acc, slot, total)))
        return body

    def _load(
        self, read: Expr, env: dict[Var, Index], guard: Valid, replace: dict[Expr, Expr]
    ) -> Stmt:
        """A read of all points of the iteration that it depends on, into registers."""
        made = self._still(ex.Rewriter(env, guard=guard).expr(read))
        used = ex.variables(made)
        loops = [var for var in (self.row, self.t, self.c, self.l) if var in used]
        slot = ix.flatten(map(ix.var, loops), [var.extent for var in loops])
        ref = Ref(f"w{len(self.staged)}", read.dtype, prod(v.extent for v in loops), "register")
        self.staged.append(ref)
        replace[read] = ex.load(ref, slot)
        fits = not loops or self.widest is None or loops[-1].extent <= self.widest
        return _loops(loops, Store(ref, slot, made), vectors=fits)

    def _still(self, read: Expr) -> Expr:
        """A read without the variables that its address does not depend on: scales of groups."""
        place: Index = read.arg.index
        for var in (self.t, self.c, self.l):
            split = FactTable().lanes(place, var)
            if split is not None and not split[0]:
                place = split[1]
        return ex.load(read.arg.ref, place, read.arg.valid)

    # from the lanes' sums to the result

    def _unit(self) -> int:
        """Lanes of a wave with sums of the same columns, "along", or of others, "across"."""
        return min(self.share.near, self.wave)

    def _sets(self) -> tuple[int, int]:
        """Sets of columns in a workgroup, and how many waves each have sums of one."""
        if self.found.along:
            return self.share.block // self.share.near, self.share.near // self._unit()
        return 1, self.share.block // self.wave

    def _kept(self) -> int:
        """Sums in shared memory of one wave, or of a part of it that has its own columns."""
        columns = self.c.extent if self.found.along else self.share.group
        return self.row.extent * columns

    def _join(self, shared: Ref) -> list[Stmt]:
        """The lanes' sums in shared memory: [set][wave of the set][row][column]."""
        body: list[Stmt] = []
        width = self.chains
        if self.found.along:
            for level in reversed(range(self.chains.bit_length() - 1)):
                body += self._folded(1 << level)
            width = 1
        unit = self._unit()
        reach = (1, unit) if self.found.along else (unit, self.wave)
        first, at = Var("s", self.acc.size // self.chains), Var("l", width)
        slot = ix.var(first) * self.chains + ix.var(at)
        for bit in range(reach[0].bit_length() - 1, reach[1].bit_length() - 1):
            here = ex.load(self.acc, slot)
            other = Expr("swap", self.dtype, (here,), 1 << bit)
            store = accumulate("add", self.acc, slot, [other], ())
            body.append(_loops((first, at), store, vectors=False))
        lane = ix.var(self.lane)
        if self.found.along:
            owner, where = lane % unit, (lane // unit) * self._kept() + ix.var(first)
            one = ex.bounded([(owner, 0, 1)])
        else:
            row = (lane // self.wave) * self.row.extent + ix.var(first)
            where = row * self.share.group + self.near * self.share.width + ix.var(at)
            one = ex.bounded([(lane % self.wave, 0, unit)])
        put = _loops((first, at), Store(shared, where, ex.load(self.acc, slot)))
        return [*body, If(one, (put,)) if one else put, Barrier()]

    def _folded(self, half: int) -> list[Stmt]:
        """Each sum's chains onto its first `half`."""
        first, at = Var("s", self.acc.size // self.chains), Var("l", half)
        slot = ix.var(first) * self.chains + ix.var(at)
        store = accumulate("add", self.acc, slot, [ex.load(self.acc, slot + half)], ())
        return [_loops((first, at), store)]

    def _finish(self, shared: Ref, shares: int) -> list[Stmt]:
        """Each element of the workgroup's columns by one lane."""
        share, found = self.share, self.found
        count = self.row.extent * share.group
        again = Var("e", -(-count // share.block))
        number = ix.var(again) * share.block + ix.var(self.lane)
        exists = ex.bounded([(number, 0, count)])
        row, column = number // share.group, number % share.group
        stored = ex.bounded([(column + self.hidden, self.overlap, share.group + self.overlap)])
        kept = self._kept()
        if found.along:
            own = column // self.c.extent * (shares * kept)
            own += row * self.c.extent + column % self.c.extent
        else:
            own = number
        parts = [ex.load(shared, own + wave * kept, exists) for wave in range(shares)]
        total = parts[0]
        for part in parts[1:]:
            total = Expr("add", self.dtype, (total, part))
        extents = tuple(axis.extent for axis in found.rows)
        rows = dict(zip(found.rows, ix.unflatten(row, extents), strict=True))
        env = {**self.env, **rows, found.column: self.base + column}
        guard = (*exists, *stored)
        result = self.algorithm.reductions[0].result
        rewriter = ex.Rewriter(env, {result: total}, guard)
        at, value = rewriter.index(self.algorithm.index), rewriter.expr(self.algorithm.value)
        return [_loops((again,), Store(self.algorithm.out, at, value, guard), vectors=False)]


def _reads(value: Expr) -> list[Expr]:
    """The loads of a value that are not in the index of another."""
    found: list[Expr] = []
    seen: set[Expr] = set()
    for expr in ex.postorder(value, seen.__contains__):
        seen.add(expr)
        if expr.op == "load":
            found.append(expr)
    return found


def _loops(loops: Sequence[Var], store: Store, *, vectors: bool = True) -> Stmt:
    """A store in unrolled loops, the innermost a vector where it has lanes."""
    body: tuple[Stmt, ...] = (store,)
    for position, var in enumerate(reversed(loops)):
        wide = vectors and not position and var.extent > 1
        body = (Loop(var, "vector" if wide else "unroll", body),)
    return body[0]
