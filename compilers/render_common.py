"""What all renderers share: the values they name, what they must print, and facts about indices.

A printer (LLVM IR, C) implements `Printer`; `render_walk.Walker` drives it over a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Protocol

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.index import Div, Dyn, Index, Mod, Var, const
from compilers.ir import Expr, Kernel, Ref, Stmt, Store
from compilers.math import dynamic, indices, postorder

INT32_MAX = (1 << 31) - 1
MEMORY = {dt.bool_: dt.uint8, dt.float16: dt.uint16, dt.bfloat16: dt.uint16}


def memory_dtype(ref: Ref) -> DType:
    """The dtype a renderer loads and stores for an element of `ref`."""
    return MEMORY.get(ref.dtype, ref.dtype)


@dataclass(frozen=True, slots=True)
class Value:
    """A printed value: a name or literal, its dtype, and its lanes (0: a scalar)."""

    text: str
    dtype: DType
    lanes: int = 0
    literal: bool = False


class Printer(Protocol):
    """One target language. Values it is given have equal lanes; masks are bool values."""

    def literal(self, value: float, dtype: DType) -> Value: ...
    def iota(self, lanes: int, dtype: DType) -> Value: ...
    def splat(self, value: Value, lanes: int) -> Value: ...
    def emit(self, op: str, dtype: DType, args: Sequence[Value], name: str = "") -> Value: ...
    def load(self, ref: Ref, index: Value) -> Value: ...
    def load_lanes(self, ref: Ref, index: Value, lanes: int, mask: Value | None) -> Value: ...
    def gather(self, ref: Ref, index: Value, mask: Value | None) -> Value: ...
    def shuffle(self, a: Value, b: Value, order: Sequence[int]) -> Value: ...
    def store(self, ref: Ref, index: Value, value: Value) -> None: ...
    def store_lanes(
        self, ref: Ref, index: Value, value: Value, mask: Value | None, streaming: bool
    ) -> None: ...
    def scatter(self, ref: Ref, index: Value, value: Value, mask: Value | None) -> None: ...
    def begin_loop(self, var: Var, extent: int | None) -> Value: ...
    def end_loop(self) -> None: ...
    def begin_if(self, condition: Value) -> None: ...
    def end_if(self) -> None: ...
    def finish(self, kernel: Kernel) -> str: ...


@dataclass(frozen=True, slots=True)
class Facts:
    """What an expression's value depends on."""

    vars: frozenset[Var]
    refs: frozenset[Ref]


NO_FACTS = Facts(frozenset(), frozenset())


class FactTable:
    """Facts of expressions and indices, computed once each."""

    def __init__(self) -> None:
        self._facts: dict[int, Facts] = {}
        self._done: dict[int, object] = {}
        self._alive: list[Expr] = []

    def of(self, root: Expr) -> Facts:
        for expr in postorder(root, self._done):
            parts = [self._facts[id(s)] for s in expr.src]
            parts += [self.of_index(index) for index in indices(expr)]
            if expr.op == "load":
                parts.append(Facts(frozenset(), frozenset({expr.arg.ref})))
            self._facts[id(expr)] = _merge(parts)
            self._done[id(expr)] = None
            self._alive.append(expr)
        return self._facts[id(root)]

    def of_index(self, index: Index) -> Facts:
        parts = []
        for atom in index.terms:
            if isinstance(atom, Var):
                parts.append(Facts(frozenset({atom}), frozenset()))
            else:
                parts.append(
                    self.of(atom.expr) if isinstance(atom, Dyn) else self.of_index(atom.index)
                )
        return _merge(parts)

    def varies(self, index: Index, var: Var | None) -> bool:
        return var is not None and var in self.of_index(index).vars

    def lanes(self, index: Index, var: Var) -> tuple[int, Index] | None:
        """(step, base) when the index is base + step * var and `base` does not depend on var."""
        step, base = 0, const(index.const)
        for atom, k in index.terms.items():
            if atom is var:
                step += k
            elif isinstance(atom, Div | Mod) and self.varies(atom.index, var):
                inner = self._quotient_lanes(atom, var)
                if inner is None:
                    return None
                step, base = step + k * inner[0], base + inner[1] * k
            elif isinstance(atom, Dyn) and var in self.of(atom.expr).vars:
                return None
            else:
                base += Index({atom: k}, 0)
        return step, base

    def _quotient_lanes(self, atom: Div | Mod, var: Var) -> tuple[int, Index] | None:
        """A quotient in which the lanes never carry: all else is a multiple of more than them."""
        inner = self.lanes(atom.index, var)
        if inner is None:
            return None
        step, base = inner
        unit = gcd(atom.divisor, *base.terms.values())
        last = base.const % unit + step * (var.extent - 1)
        if not 0 <= last < unit:
            return None
        if isinstance(atom, Div):
            return 0, base // atom.divisor
        return step, base % atom.divisor


def _merge(parts: Sequence[Facts]) -> Facts:
    if not parts:
        return NO_FACTS
    if len(parts) == 1:
        return parts[0]
    return Facts(
        frozenset().union(*(p.vars for p in parts)), frozenset().union(*(p.refs for p in parts))
    )


def fits_int32(index: Index) -> bool:
    """Whether every partial sum and product of the index is an int32."""
    total = abs(index.const)
    for atom, k in index.terms.items():
        total += abs(k) * max(abs(atom.low), abs(atom.high))
        if isinstance(atom, Div | Mod) and not fits_int32(raised(atom)):
            return False
    return total <= INT32_MAX


def raised(atom: Div | Mod) -> Index:
    """The quotient's index plus the multiple of its divisor that makes it non-negative."""
    return atom.index + lift(atom) * atom.divisor


def lift(atom: Div | Mod) -> int:
    """How many divisors `raised` adds."""
    return max(0, -(atom.index.low // atom.divisor))


def stored_refs(body: Sequence[Stmt]) -> frozenset[Ref]:
    """Every ref that statements store to."""
    found: set[Ref] = set()
    for statement in body:
        if isinstance(statement, Store):
            found.add(statement.ref)
        else:
            found |= stored_refs(statement.body)
    return frozenset(found)


def fixed(index: Index) -> bool:
    """Whether the index means the same wherever its loops' variables do: it reads nothing."""
    return next(dynamic(index), None) is None
