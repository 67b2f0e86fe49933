"""Values that are printed once and shared, and index arithmetic and predicates as such values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from functools import reduce
from typing import Literal

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.index import Atom, Div, Dyn, Index, Mod, Var
from compilers.ir import Expr, Valid
from compilers.math.build import UNSIGNED
from compilers.math.expand import Expander
from compilers.render.common import Printer, Value
from compilers.render.facts import FactTable, fits_int32, lift, raised, unit_of


class Writer(ABC):
    """Prints pure values; an equal one is printed once in a scope."""

    def __init__(self, printer: Printer, expander: Expander) -> None:
        self.printer, self.expand = printer, expander
        self.facts = FactTable()
        self.unrolled: dict[Var, Index] = {}
        self.counted: dict[Var, Value] = {}
        self.vector: Var | None = None
        self.memo: dict[Hashable, Value] = {}
        self.scopes: list[list[Hashable]] = [[]]

    @abstractmethod
    def value(self, root: Expr) -> Value:
        """The value of a rewritten expression here and now."""

    def remember(self, key: Hashable, value: Value) -> Value:
        """Share `value` until the innermost scope ends."""
        self.memo[key] = value
        self.scopes[-1].append(key)
        return value

    def spread(self, value: Value, lanes: int) -> Value:
        """The value in every lane."""
        if value.lanes == lanes:
            return value
        key = (value, lanes)
        return self.memo.get(key) or self.remember(key, self.printer.splat(value, lanes))

    def emit(self, op: str, dtype: DType, args: Sequence[Value], name: str = "") -> Value:
        """One op; scalars among lanes are spread."""
        if op in {"cast", "bitcast"} and args[0].dtype is dtype:
            return args[0]
        if op == "mad" and not self.expand.fused:
            return self.emit("add", dtype, (self.emit("mul", dtype, args[:2]), args[2]))
        lanes = max(arg.lanes for arg in args)
        operands = tuple(self.spread(arg, lanes) for arg in args)
        key = (op, dtype, name, operands)
        op = "fma" if op == "mad" else op
        found = self.memo.get(key)
        return found or self.remember(key, self.printer.emit(op, dtype, operands, name))

    def number(self, index: Index) -> Value:
        """An int64, in lanes where the index depends on the vector loop; an int32 where it fits
        and the printer prefers that."""
        if self.printer.narrow:
            return self._sum(index, dt.int32 if fits_int32(index) else dt.int64)
        if self.vector in self.facts.of_index(index) and fits_int32(index):
            return self.emit("cast", dt.int64, (self._sum(index, dt.int32),))
        return self._sum(index, dt.int64)

    def mask(self, valid: Valid) -> Value | Literal[False] | None:
        """A predicate: None when it always holds, False when it never does."""
        parts = []
        for raw, low, high in valid:
            index = self._whole(raw.substitute(self.unrolled), low, high)
            if index.high < low or index.low >= high:
                return False
            if index.low < low:
                at = self.number(index)
                bound = self.printer.literal(low, at.dtype)
                parts.append(self.emit("le", dt.bool_, (bound, at)))
            if index.high >= high:
                at = self.number(index)
                bound = self.printer.literal(high, at.dtype)
                parts.append(self.emit("lt", dt.bool_, (at, bound)))
        if not parts:
            return None
        return reduce(lambda a, b: self.emit("and", dt.bool_, (a, b)), parts)

    def _whole(self, index: Index, low: int, high: int) -> Index:
        """An index to be compared with two bounds; the first lane's where that speaks for all lanes
        of a vector, and the printer has no use for a lane's own answer."""
        split = self.facts.lanes(index, self.vector) if self.printer.narrow else None
        if self.vector is None or split is None or split[0] != 1:
            return index
        width = self.vector.extent
        apart = unit_of(split[1]) % width or low % width or high % width
        return index if apart else split[1]

    def _sum(self, index: Index, dtype: DType) -> Value:
        """The index; what its lanes have in common is added up as one int64."""
        if self.vector in self.facts.of_index(index):
            split = self.facts.lanes(index, self.vector)
            if split is not None:
                base = dtype if self.printer.narrow else dt.int64
                start = self.emit("cast", dtype, (self._sum(split[1], base),))
                moving = self._times(self._atom(self.vector, dtype), split[0])
                return self.emit("add", dtype, (start, moving)) if split[0] else start
        parts = [self._times(self._atom(atom, dtype), k) for atom, k in index.terms.items()]
        if index.const or not parts:
            parts.append(self.printer.literal(index.const, dtype))
        return reduce(lambda a, b: self.emit("add", dtype, (a, b)), parts)

    def _times(self, value: Value, k: int) -> Value:
        factor = self.printer.literal(k, value.dtype)
        return value if k == 1 else self.emit("mul", value.dtype, (value, factor))

    def _atom(self, atom: Atom, dtype: DType) -> Value:
        if isinstance(atom, Div | Mod):
            return self._quotient(atom, dtype)
        if isinstance(atom, Dyn):
            return self.emit("cast", dtype, (self.value(self.expand(atom.expr)),))
        if atom is self.vector:
            return self.printer.iota(atom.extent, dtype)
        if atom not in self.counted:
            raise ValueError(f"index variable {atom.name!r} belongs to no loop around its use")
        return self.emit("cast", dtype, (self.counted[atom],))

    def _quotient(self, atom: Div | Mod, dtype: DType) -> Value:
        """Floor division of a possibly negative index: raise it, divide unsigned, lower it."""
        unsigned = UNSIGNED[dtype.itemsize]
        inner = self.emit("bitcast", unsigned, (self._sum(raised(atom), dtype),))
        divisor = self.printer.literal(atom.divisor, unsigned)
        name = "idiv" if isinstance(atom, Div) else "imod"
        result = self.emit("bitcast", dtype, (self.emit(name, unsigned, (inner, divisor)),))
        if isinstance(atom, Mod) or not lift(atom):
            return result
        return self.emit("add", dtype, (result, self.printer.literal(-lift(atom), dtype)))
