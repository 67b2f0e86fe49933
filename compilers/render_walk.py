"""The one walk over a kernel that drives every printer: scopes, unrolling, lanes and memory."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.index import Index, Var
from compilers.index import const as index_const
from compilers.ir import Expr, If, Kernel, Load, Loop, Ref, Stmt, Store
from compilers.math import Expander, children
from compilers.render_common import FactTable, Printer, Value, memory_dtype, stored_refs
from compilers.render_index import IndexWriter

PAIR = 2
"""The stride that two vector loads and a shuffle read faster than a gather."""


class Walker:
    """Prints one kernel through `printer`. Values are shared while their inputs stay the same."""

    def __init__(self, kernel: Kernel, printer: Printer, expander: Expander) -> None:
        self.kernel, self.printer, self.expand = kernel, printer, expander
        self.facts = FactTable()
        self.unrolled: dict[Var, Index] = {}
        self.vector: Var | None = None
        self.versions: dict[Ref, int] = {}
        self.memo: dict[Hashable, Value] = {}
        self.scopes: list[list[Hashable]] = [[]]
        self.index = IndexWriter(self)

    def run(self) -> str:
        """The kernel's text."""
        self.loop(self.kernel.body)
        return self.printer.finish(self.kernel)

    def remember(self, key: Hashable, value: Value) -> Value:
        """Share `value` until the innermost scope ends."""
        self.memo[key] = value
        self.scopes[-1].append(key)
        return value

    def push(self, body: Sequence[Stmt]) -> None:
        """Enter code that may run never or again: what it stores is unknown from here on."""
        self._bump(body)
        self.scopes.append([])

    def pop(self, body: Sequence[Stmt]) -> None:
        """Leave it: its values are out of reach."""
        for key in self.scopes.pop():
            del self.memo[key]
        self._bump(body)

    def _bump(self, body: Sequence[Stmt]) -> None:
        for ref in stored_refs(body):
            self.versions[ref] = self.versions.get(ref, 0) + 1

    # statements

    def statements(self, body: Sequence[Stmt]) -> None:
        for statement in body:
            if isinstance(statement, Store):
                self.store(statement)
            elif isinstance(statement, Loop):
                self.loop(statement)
            else:
                self.branch(statement)

    def branch(self, statement: If) -> None:
        condition = self.index.mask(self.expand.valid(statement.valid))
        if condition is False:
            return
        if condition is None:
            self.statements(statement.body)
            return
        self.push(statement.body)
        self.printer.begin_if(condition)
        self.statements(statement.body)
        self.printer.end_if()
        self.pop(statement.body)

    def loop(self, loop: Loop) -> None:
        if loop.extent <= 0:
            return
        if loop.kind == "unroll":
            for i in range(loop.extent):
                self.unrolled[loop.var] = index_const(i)
                self.statements(loop.body)
            del self.unrolled[loop.var]
        elif loop.kind == "vector":
            self.vector = loop.var if loop.extent > 1 else None
            self.statements(loop.body)
            self.vector = None
        else:
            self._counted(loop)

    def _counted(self, loop: Loop) -> None:
        self.push(loop.body)
        grid = loop.kind == "grid"
        self.index.variables[loop.var] = self.printer.begin_loop(
            loop.var, None if grid else loop.extent
        )
        self.statements(loop.body)
        self.printer.end_loop()
        del self.index.variables[loop.var]
        self.pop(loop.body)

    def store(self, store: Store) -> None:
        """One store statement, for one element or for the lanes of the vector loop."""
        mask = self.index.mask(self.expand.valid(store.valid))
        if mask is not False:
            index = self.expand.index(store.index).substitute(self.unrolled)
            value = self.value(self.expand.stored(store.value))
            if self.vector is None:
                self._store_guarded(store.ref, index, value, mask, store.streaming)
            else:
                self._store_lanes(store, index, value, mask, self.vector)
            self.versions[store.ref] = self.versions.get(store.ref, 0) + 1

    def _store_guarded(
        self, ref: Ref, index: Index, value: Value, mask: Value | None, streaming: bool
    ) -> None:
        """A scalar store, or lanes under one condition."""
        where = self.index.scalar(index)
        if mask is not None:
            self.printer.begin_if(mask)
        if value.lanes:
            self.printer.store_lanes(ref, where, value, None, streaming)
        else:
            self.printer.store(ref, where, value)
        if mask is not None:
            self.printer.end_if()

    def _store_lanes(
        self, store: Store, index: Index, value: Value, mask: Value | None, var: Var
    ) -> None:
        ref, width = store.ref, var.extent
        split = self.facts.lanes(index, var)
        step = split[0] if split is not None else 2
        if split is not None and step == 0 and not value.lanes and (mask is None or not mask.lanes):
            self._store_guarded(ref, index, value, mask, store.streaming)
            return
        value = self.spread(value, width)
        if split is None or abs(step) != 1:
            where = self.spread(self.index.value(index), width)
            self.printer.scatter(ref, where, value, self.spread(mask, width) if mask else None)
            return
        base = split[1]
        if step < 0:
            base, value = base - (width - 1), self._reverse(value)
            mask = self._reverse(mask) if mask is not None and mask.lanes else mask
        if mask is None or not mask.lanes:
            self._store_guarded(ref, base, value, mask, store.streaming)
            return
        where = self.index.scalar(base)
        if ref.space == "register" and base.low >= 0 and base.high + width <= ref.size:
            old = self.printer.load_lanes(ref, where, width, None)
            value = self.printer.emit("where", value.dtype, (mask, value, old))
            mask = None
        self.printer.store_lanes(ref, where, value, mask, False)

    # values

    def spread(self, value: Value, lanes: int) -> Value:
        """The value in every lane."""
        if value.lanes == lanes:
            return value
        if value.literal:
            return self.printer.splat(value, lanes)
        key = ("splat", value.text, value.dtype, lanes)
        found = self.memo.get(key)
        return found or self.remember(key, self.printer.splat(value, lanes))

    def emit(self, op: str, dtype: DType, args: Sequence[Value], name: str = "") -> Value:
        """One op; scalars among lanes are spread."""
        lanes = max(arg.lanes for arg in args)
        return self.printer.emit(op, dtype, [self.spread(arg, lanes) for arg in args], name)

    def value(self, root: Expr) -> Value:
        """The value of a rewritten expression here and now."""
        self.facts.of(root)
        stack = [(root, False)]
        while stack:  # each expression is pushed at most once for each of its users
            expr, ready = stack.pop()
            key = self._key(expr)
            if key in self.memo:
                continue
            if ready:
                self.remember(key, self._compute(expr))
            else:
                stack.append((expr, True))
                stack.extend((child, False) for child in reversed(children(expr)))
        return self.memo[self._key(root)]

    def _key(self, expr: Expr) -> Hashable:
        facts = self.facts.of(expr)
        if not facts.vars and not facts.refs:
            return id(expr)
        places = tuple(self.unrolled[v].const for v in self.unrolled if v in facts.vars)
        versions = tuple(self.versions.get(ref, 0) for ref in self.versions if ref in facts.refs)
        return (id(expr), places, versions)

    def _compute(self, expr: Expr) -> Value:
        if expr.op == "const":
            return self.printer.literal(expr.arg, expr.dtype)
        if expr.op == "index":
            return self.index.value(expr.arg.substitute(self.unrolled))
        if expr.op == "valid":
            mask = self.index.mask(expr.arg)
            return mask or self.printer.literal(mask is None, dt.bool_)
        if expr.op == "load":
            return self._load(expr.arg)
        args = [self.memo[self._key(source)] for source in expr.src]
        return self.emit(expr.op, expr.dtype, args, expr.arg or "")

    def _load(self, load: Load) -> Value:
        index = load.index.substitute(self.unrolled)
        mask = self.index.mask(load.valid)
        zero = self.printer.literal(0, memory_dtype(load.ref))
        if mask is False:
            return zero
        if self.vector is not None:
            split = self.facts.lanes(index, self.vector)
            if split is None or split[0] or (mask is not None and mask.lanes):
                return self._load_lanes(load.ref, index, split, mask, self.vector.extent)
        where = self.index.scalar(index)
        if mask is None:
            return self.printer.load(load.ref, where)
        inside = load.ref.space != "global" and index.low >= 0 and index.high < load.ref.size
        if not inside:
            where = self.emit("where", dt.int64, (mask, where, self.printer.literal(0, dt.int64)))
        return self.emit("where", zero.dtype, (mask, self.printer.load(load.ref, where), zero))

    def _load_lanes(
        self,
        ref: Ref,
        index: Index,
        split: tuple[int, Index] | None,
        mask: Value | None,
        width: int,
    ) -> Value:
        mask = self.spread(mask, width) if mask is not None else None
        if split is not None and abs(split[0]) == PAIR and mask is None:
            return self._load_every_other(ref, *split, width)
        if split is None or abs(split[0]) != 1:
            return self.printer.gather(ref, self.spread(self.index.value(index), width), mask)
        step, base = split
        if step > 0:
            return self.printer.load_lanes(ref, self.index.scalar(base), width, mask)
        mask = self._reverse(mask) if mask is not None else None
        first = self.index.scalar(base - (width - 1))
        return self._reverse(self.printer.load_lanes(ref, first, width, mask))

    def _load_every_other(self, ref: Ref, step: int, base: Index, width: int) -> Value:
        """Two loads that share one element, so that nothing past the last lane is read."""
        first = base if step > 0 else base - PAIR * (width - 1)
        low = self.printer.load_lanes(ref, self.index.scalar(first), width, None)
        high = self.printer.load_lanes(ref, self.index.scalar(first + (width - 1)), width, None)
        order = [place + (place >= width) for place in range(0, PAIR * width, PAIR)]
        return self.printer.shuffle(low, high, order if step > 0 else order[::-1])

    def _reverse(self, value: Value) -> Value:
        return self.printer.shuffle(value, value, range(value.lanes - 1, -1, -1))
