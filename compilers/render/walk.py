"""The one walk over a kernel that drives every printer: scopes, unrolling, lanes and memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from compilers import dtype as dt
from compilers.expr import postorder
from compilers.index import Index, Var
from compilers.index import const as index_const
from compilers.index import var as index_var
from compilers.ir import (
    Barrier,
    Copy,
    Expr,
    Gather,
    If,
    Kernel,
    Load,
    Loop,
    Matrix,
    Pending,
    Ref,
    Stmt,
    Store,
    TileMatrix,
    Together,
)
from compilers.lower.pace import Pace
from compilers.math.expand import Expander
from compilers.render.common import MemoryAccess, Printer, Value, memory_dtype
from compilers.render.facts import unit_of
from compilers.render.index import Writer

GPU_LOOPS = frozenset({"grid", "item", "lane"})
PAIR = 2
"""The stride that two vector loads and a shuffle read faster than a gather."""


def stored_refs(body: Sequence[Stmt]) -> frozenset[Ref]:
    """Every ref that statements store to."""
    found: set[Ref] = set()
    for statement in body:
        if isinstance(statement, Store):
            found.add(statement.ref)
        elif isinstance(statement, Matrix | TileMatrix):
            found.add(statement.acc)
        elif isinstance(statement, Gather | Copy):
            found.add(statement.to)
        elif not isinstance(statement, Barrier | Pending):
            found |= stored_refs(statement.body)
    return frozenset(found)


class Walker(Writer):
    """Prints one kernel through `printer`. Values are shared while their inputs stay the same."""

    def __init__(self, kernel: Kernel, printer: Printer, expander: Expander) -> None:
        super().__init__(printer, expander)
        self.kernel, self.pace = kernel, Pace(kernel)
        self.versions: dict[Ref, int] = {}

    def run(self) -> str:
        """The kernel's text."""
        self._loop(self.kernel.body)
        return self.printer.finish(self.kernel)

    @property
    def width(self) -> int:
        """Lanes of the vector loop, 0 outside of one."""
        return self.vector.extent if self.vector else 0

    # statements

    @contextmanager
    def _scope(self, body: Sequence[Stmt]) -> Iterator[None]:
        """Code that may run never or again: what it stores is unknown within it and after it."""
        self._touch(stored_refs(body))
        self.scopes.append([])
        yield
        for key in self.scopes.pop():
            del self.memo[key]
        self._touch(stored_refs(body))

    def _touch(self, refs: frozenset[Ref]) -> None:
        for ref in refs:
            self.versions[ref] = self.versions.get(ref, 0) + 1

    def _statements(self, body: Sequence[Stmt]) -> None:
        for statement in body:
            if isinstance(statement, Store):
                self._store(statement)
                self._touch(frozenset({statement.ref}))
            elif isinstance(statement, Loop):
                self._loop(statement)
            elif isinstance(statement, If):
                self._branch(statement)
            else:
                self._together(statement)

    def _together(self, statement: Together) -> None:
        """Statements that the lanes of a GPU execute together."""
        self._print(statement)
        self._touch(stored_refs((statement,)))

    def _print(self, statement: Together) -> None:
        if isinstance(statement, Barrier):
            if not statement.meet:
                self.printer.order()
                return
            self.printer.barrier(wave=statement.wave)
            self._touch(frozenset(ref for ref in self.kernel.locals if ref.space == "shared"))
            return
        if isinstance(statement, Pending):
            self.printer.pending(statement)
        elif isinstance(statement, Matrix):
            self.printer.matrix(statement, *self._at(statement.a_index, statement.b_index))
        elif isinstance(statement, TileMatrix):
            self.printer.tile_matrix(statement, *self._at(statement.a.index, statement.b.index))
        elif isinstance(statement, Gather):
            self.printer.gather(statement, *self._at(statement.index))
        else:
            self._copy(statement)

    def _copy(self, statement: Copy) -> None:
        """16 bytes, or zeros where the mask is false: then the first of the source are named."""
        mask = self.mask(statement.valid)
        index, at = self._at(statement.index, statement.at)
        if mask is False:
            mask = self.printer.literal(False, dt.bool_)
        if mask is not None:
            zero = self.printer.literal(0, at.dtype)
            at = self.emit("where", at.dtype, (mask, at, zero))
        self.printer.copy(statement, index, at, mask)

    def _at(self, *indices: Index) -> list[Value]:
        return [self.number(index.substitute(self.unrolled)) for index in indices]

    def _branch(self, statement: If) -> None:
        condition = self.mask(statement.valid)
        if condition is None:
            self._statements(statement.body)
        elif condition:
            with self._scope(statement.body), self.printer.branch(condition):
                self._statements(statement.body)

    def _loop(self, loop: Loop) -> None:
        if loop.extent <= 0:
            return
        if loop.kind == "unroll":
            for i in range(loop.extent):
                self.unrolled[loop.var] = index_const(i)
                self._statements(loop.body)
            del self.unrolled[loop.var]
        elif loop.kind == "vector":
            self.vector = loop.var if loop.extent > 1 else None
            self._statements(loop.body)
            self.vector = None
        elif self.kernel.block and loop.kind in GPU_LOOPS:
            self._place(loop)
        else:
            strip = self.pace.strip(loop) if loop.kind == "serial" else 0
            if 1 < strip < loop.extent:
                self._strips(loop, strip)
            else:
                extent = None if loop.kind == "grid" else loop.extent
                with self._scope(loop.body), self.printer.loop(extent) as self.counted[loop.var]:
                    if strip:
                        self.printer.poll()
                    self._statements(loop.body)
            del self.counted[loop.var]

    def _strips(self, loop: Loop, strip: int) -> None:
        """A long loop of short iterations: it polls whether to continue after each `strip`."""
        whole = loop.extent // strip
        with self._scope(loop.body), self.printer.loop(whole) as outer:
            self.printer.poll()
            start = self.emit("mul", dt.int64, (outer, self.printer.literal(strip, dt.int64)))
            self._part(loop, strip, start)
        if loop.extent % strip:
            start = self.printer.literal(whole * strip, dt.int64)
            self._part(loop, loop.extent % strip, start)

    def _part(self, loop: Loop, extent: int, start: Value) -> None:
        with self._scope(loop.body), self.printer.loop(extent) as inner:
            self.counted[loop.var] = self.emit("add", dt.int64, (inner, start))
            self._statements(loop.body)

    def _place(self, loop: Loop) -> None:
        """The iteration that this workgroup or lane of a GPU is."""
        if loop.kind != "item":
            self.counted[loop.var] = self.printer.place(loop.kind)
            self._statements(loop.body)
        else:
            block = self.kernel.block
            group, lane = Var("group", self.kernel.grid), Var("lane", block)
            self.counted |= {v: self.printer.place(k) for v, k in ((group, "grid"), (lane, "lane"))}
            at = index_var(group) * block + index_var(lane)
            self.counted[loop.var] = self.number(at)
            self._branch(If(((at, 0, loop.extent),), loop.body))
        del self.counted[loop.var]

    # expressions

    def value(self, root: Expr) -> Value:
        for expr in postorder(root, lambda expr: self._key(expr) in self.memo):
            self.remember(self._key(expr), self._compute(expr))
        return self.memo[self._key(root)]

    def _key(self, expr: Expr) -> Hashable:
        """The expression, and what it depends on as it is now."""
        facts = self.facts.of(expr)
        if not facts:
            return expr
        places = tuple(self.unrolled[v].const for v in self.unrolled if v in facts)
        return (expr, places, tuple(self.versions[ref] for ref in self.versions if ref in facts))

    def _compute(self, expr: Expr) -> Value:
        if expr.op == "const":
            return self.printer.literal(expr.arg, expr.dtype)
        if expr.op == "index":
            return self.emit("cast", expr.dtype, (self.number(expr.arg.substitute(self.unrolled)),))
        if expr.op == "valid":
            mask = self.mask(expr.arg)
            return mask or self.printer.literal(mask is None, dt.bool_)
        if expr.op == "load":
            return self._load(expr.arg)
        args = [self.memo[self._key(source)] for source in expr.src]
        if expr.op == "rarely":
            return self._rarely(args[0], args[1], expr.arg)
        return self.emit(expr.op, expr.dtype, args, str(expr.arg or ""))

    def _rarely(self, condition: Value, usual: Value, other: Expr) -> Value:
        lanes = max(condition.lanes, usual.lanes)

        def behind() -> Value:
            with self._scope(()):
                return self.spread(self.value(other), lanes)

        return self.printer.rarely(self.spread(condition, lanes), self.spread(usual, lanes), behind)

    # memory

    def _split(self, index: Index) -> tuple[int | None, Index]:
        """(step, base): lanes are `step` apart from `base`; None when they have no one step."""
        return self.facts.lanes(index, self.vector) or (None, index)

    def _spread_mask(self, mask: Value | None) -> Value | None:
        return mask and self.spread(mask, self.width)

    def _reverse(self, value: Value) -> Value:
        lanes = value.lanes
        return self.printer.shuffle(value, value, range(lanes)[::-1]) if lanes else value

    def _load(self, load: Load) -> Value:
        mask = self.mask(load.valid)
        if mask is False:
            return self.printer.literal(0, memory_dtype(load.ref))
        index = load.index.substitute(self.unrolled)
        step, base = self._split(index)
        if step == 0 and not (mask and mask.lanes):
            return self._load_one(load.ref, base, mask)
        uniform = self.printer.narrow and mask and not mask.lanes
        if step == 1 and uniform and load.ref.size >= self.width:
            return self._load_one(load.ref, base, mask, self.width)
        mask = self._spread_mask(mask)
        if step == 1:
            first = self._first(load.ref, base, mask)
            access = MemoryAccess(load.ref, first, mask, unit_of(base))
            return self.printer.load(access, self.width)
        if step == -1:
            first = self._first(load.ref, base - (self.width - 1), mask)
            mask = mask and self._reverse(mask)
            access = MemoryAccess(load.ref, first, mask)
            return self._reverse(self.printer.load(access, self.width))
        if step is not None and abs(step) == PAIR and mask is None:
            return self._load_every_other(load.ref, step, base)
        place = self.spread(self.number(index), self.width)
        return self.printer.load(MemoryAccess(load.ref, place, mask), self.width)

    def _first(self, ref: Ref, index: Index, mask: Value | None) -> Value:
        """Start of a vector. For one that is masked off and outside the ref, the ref's start: a
        masked read of a page that does not exist is harmless, but takes the CPU 100 ns."""
        where = self.number(index)
        near = self.mask(((index, 1 - self.width, ref.size),)) if mask else None
        if near is None:
            return where
        start = self.printer.literal(0, where.dtype)
        return self.emit("where", where.dtype, (near, where, start)) if near else start

    def _load_one(self, ref: Ref, index: Index, mask: Value | None, lanes: int = 0) -> Value:
        """One element, or a whole vector; where the mask is false, the first of the ref is read."""
        where = self.number(index)
        if mask is None:
            return self.printer.load(MemoryAccess(ref, where, None, unit_of(index)), lanes)
        if ref.space == "global" or index.low < 0 or index.high >= ref.size:
            first = self.printer.literal(0, where.dtype)
            where = self.emit("where", where.dtype, (mask, where, first))
        loaded = self.printer.load(MemoryAccess(ref, where, None, unit_of(index)), lanes)
        zero = self.printer.literal(0, loaded.dtype)
        return self.emit("where", loaded.dtype, (mask, loaded, zero))

    def _load_every_other(self, ref: Ref, step: int, base: Index) -> Value:
        """Two loads that share one element, so that no element past the last lane is read."""
        width = self.width
        first = base if step > 0 else base - PAIR * (width - 1)
        low = self.printer.load(MemoryAccess(ref, self.number(first)), width)
        last = self.number(first + (width - 1))
        high = self.printer.load(MemoryAccess(ref, last), width)
        order = [place + (place >= width) for place in range(0, PAIR * width, PAIR)]
        return self.printer.shuffle(low, high, order if step > 0 else order[::-1])

    def _store(self, store: Store) -> None:
        """One store statement, for one element or for the lanes of the vector loop."""
        mask = self.mask(store.valid)
        if mask is False:
            return
        ref, index = store.ref, store.index.substitute(self.unrolled)
        value = self.value(self.expand(store.value))
        value = self.emit("cast", memory_dtype(ref), (value,))
        step, base = self._split(index)
        if step != 0 or value.lanes or (mask and mask.lanes):
            value = self.spread(value, self.width)
            if step not in {1, -1}:
                place = self.spread(self.number(index), self.width)
                self.printer.store(MemoryAccess(ref, place, self._spread_mask(mask)), value)
                return
            if step == -1:
                base, value = base - (self.width - 1), self._reverse(value)
                mask = mask and self._reverse(mask)
        if mask and mask.lanes:
            self._store_masked(ref, base, value, mask)
            return
        place = self.number(base)
        with self.printer.branch(mask) if mask else nullcontext():
            access = MemoryAccess(ref, place, None, unit_of(base), store.streaming)
            self.printer.store(access, value)

    def _store_masked(self, ref: Ref, base: Index, value: Value, mask: Value) -> None:
        """Registers are read, blended and written, so that they need no memory."""
        place = self.number(base)
        if ref.space == "register" and base.low >= 0 and base.high + self.width <= ref.size:
            old = self.printer.load(MemoryAccess(ref, place), self.width)
            value = self.emit("where", value.dtype, (mask, value, old))
            self.printer.store(MemoryAccess(ref, place), value)
        else:
            self.printer.store(MemoryAccess(ref, place, mask), value)
