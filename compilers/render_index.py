"""Index arithmetic and predicates, as scalars or lane by lane, for every printer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.index import Atom, Div, Dyn, Index, Mod, Var
from compilers.ir import Valid
from compilers.render_common import Value, fits_int32, fixed, lift, raised

if TYPE_CHECKING:
    from compilers.render_walk import Walker

UNSIGNED = {dt.int32: dt.uint32, dt.int64: dt.uint64}


class IndexWriter:
    """Prints indices for a walker. `variables` are the counted loops' values."""

    def __init__(self, walker: Walker) -> None:
        self.walker = walker
        self.variables: dict[Var, Value] = {}

    def scalar(self, index: Index) -> Value:
        """An int64 that does not depend on the vector loop."""
        return self._sum(index, dt.int64)

    def value(self, index: Index) -> Value:
        """An int64, or int64 lanes when the index depends on the vector loop."""
        walker = self.walker
        var = walker.vector
        if var is None or not walker.facts.varies(index, var):
            return self.scalar(index)
        dtype = dt.int32 if fits_int32(index) else dt.int64
        lanes = self._lanes(index, var, dtype)
        return lanes if dtype is dt.int64 else walker.emit("cast", dt.int64, (lanes,))

    def mask(self, valid: Valid) -> Value | Literal[False] | None:
        """A predicate: None when it always holds, False when it never does."""
        found: Value | None = None
        for raw, low, high in valid:
            index = raw.substitute(self.walker.unrolled)
            if index.high < low or index.low >= high:
                return False
            if index.low >= low and index.high < high:
                continue
            one = self._between(index, low, high)
            found = one if found is None else self.walker.emit("and", dt.bool_, (found, one))
        return found

    def _between(self, index: Index, low: int, high: int) -> Value:
        walker, var = self.walker, self.walker.vector
        key = ("valid", index, low, high, var if walker.facts.varies(index, var) else None)
        shared = fixed(index)
        if shared and key in walker.memo:
            return walker.memo[key]
        if var is not None and walker.facts.varies(index, var):
            found = self._between_lanes(index, low, high, var)
        else:
            found = self._compare(self.scalar(index), index, low, high)
        return walker.remember(key, found) if shared else found

    def _between_lanes(self, index: Index, low: int, high: int, var: Var) -> Value:
        """Contiguous lanes compare their number with how many of them are inside."""
        walker = self.walker
        split = walker.facts.lanes(index, var)
        if split is None or split[0] != 1:
            dtype = (
                dt.int32 if fits_int32(index) and max(abs(low), abs(high)) < 1 << 31 else dt.int64
            )
            return self._compare(self._lanes(index, var, dtype), index, low, high)
        base, numbers = split[1], walker.printer.iota(var.extent, dt.int32)
        parts = []
        if base.high + var.extent > high:
            count = self._clamped(base * -1 + high, var.extent)
            parts.append(walker.emit("lt", dt.bool_, (numbers, count)))
        if index.low < low:
            count = self._clamped(base * -1 + low, var.extent)
            parts.append(walker.emit("le", dt.bool_, (count, numbers)))
        if not parts:
            return walker.printer.literal(True, dt.bool_)
        return parts[0] if len(parts) == 1 else walker.emit("and", dt.bool_, parts)

    def _clamped(self, index: Index, lanes: int) -> Value:
        """The index within 0..lanes, as an int32."""
        walker = self.walker
        count = self.scalar(index)
        for op, limit in (("lt", 0), ("gt", lanes)):
            bound = walker.printer.literal(limit, dt.int64)
            pair = (count, bound) if op == "lt" else (bound, count)
            outside = walker.emit("lt", dt.bool_, pair)
            count = walker.emit("where", dt.int64, (outside, bound, count))
        return walker.emit("cast", dt.int32, (count,))

    def _compare(self, value: Value, index: Index, low: int, high: int) -> Value:
        walker = self.walker
        parts = []
        if index.low < low:
            bound = walker.printer.literal(low, value.dtype)
            parts.append(walker.emit("le", dt.bool_, (bound, value)))
        if index.high >= high:
            bound = walker.printer.literal(high, value.dtype)
            parts.append(walker.emit("lt", dt.bool_, (value, bound)))
        return parts[0] if len(parts) == 1 else walker.emit("and", dt.bool_, parts)

    def _lanes(self, index: Index, var: Var, dtype: DType) -> Value:
        """Lanes of an index that depends on `var`."""
        walker = self.walker
        split = walker.facts.lanes(index, var)
        if split is None:
            return self._sum(index, dtype)
        step, base = split
        numbers = walker.printer.iota(var.extent, dtype)
        if step != 1:
            factor = walker.printer.literal(step, dtype)
            numbers = walker.emit("mul", dtype, (numbers, factor))
        if not base.terms and base.const == 0:
            return numbers
        return walker.emit("add", dtype, (self._narrow(self.scalar(base), dtype), numbers))

    def _narrow(self, value: Value, dtype: DType) -> Value:
        return value if value.dtype is dtype else self.walker.emit("cast", dtype, (value,))

    def _sum(self, index: Index, dtype: DType) -> Value:
        walker = self.walker
        shared = fixed(index) and not walker.facts.varies(index, walker.vector)
        key = ("index", index, dtype)
        if shared and key in walker.memo:
            return walker.memo[key]
        total: Value | None = None
        for atom, k in index.terms.items():
            term = self._atom(atom, dtype)
            if k != 1:
                term = walker.emit("mul", dtype, (term, walker.printer.literal(k, dtype)))
            total = term if total is None else walker.emit("add", dtype, (total, term))
        if index.const or total is None:
            offset = walker.printer.literal(index.const, dtype)
            total = offset if total is None else walker.emit("add", dtype, (total, offset))
        return walker.remember(key, total) if shared else total

    def _atom(self, atom: Atom, dtype: DType) -> Value:
        walker = self.walker
        if isinstance(atom, Var):
            return self._variable(atom, dtype)
        if isinstance(atom, Dyn):
            return self._narrow(walker.value(atom.expr), dtype)
        return self._quotient(atom, dtype)

    def _variable(self, var: Var, dtype: DType) -> Value:
        if var is self.walker.vector:
            return self.walker.printer.iota(var.extent, dtype)
        if var not in self.variables:
            raise ValueError(f"index variable {var.name!r} belongs to no loop around its use")
        return self._narrow(self.variables[var], dtype)

    def _quotient(self, atom: Div | Mod, dtype: DType) -> Value:
        """Floor division of a possibly negative index: raise it, divide unsigned, lower it."""
        walker = self.walker
        index, unsigned = raised(atom), UNSIGNED[dtype]
        if walker.vector is not None and walker.facts.varies(index, walker.vector):
            inner = self._lanes(index, walker.vector, dtype)
        else:
            inner = self._sum(index, dtype)
        divisor = walker.printer.literal(atom.divisor, unsigned)
        inner = walker.emit("bitcast", unsigned, (inner,))
        name = "idiv" if isinstance(atom, Div) else "imod"
        result = walker.emit("bitcast", dtype, (walker.emit(name, unsigned, (inner, divisor)),))
        if isinstance(atom, Div) and lift(atom):
            lower = walker.printer.literal(-lift(atom), dtype)
            result = walker.emit("add", dtype, (result, lower))
        return result
