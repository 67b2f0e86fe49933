"""What expressions and indices depend on, and how indices move along the lanes of a vector."""

from __future__ import annotations

from math import gcd
from typing import TypeAlias

from compilers.expr import indices, postorder
from compilers.index import Div, Dyn, Index, Mod, Var, const
from compilers.ir import Expr, Ref

INT32_MAX = (1 << 31) - 1
Facts: TypeAlias = frozenset[Var | Ref]
"""The loop variables and the memory that a value depends on."""


class FactTable:
    """Facts of expressions and indices, those of an expression found once."""

    def __init__(self) -> None:
        self._facts: dict[Expr, Facts] = {}

    def of(self, root: Expr) -> Facts:
        for expr in postorder(root, self._facts.__contains__):
            found: set[Var | Ref] = {expr.arg.ref} if expr.op == "load" else set()
            for source in expr.src:
                found |= self._facts[source]
            for index in indices(expr):
                found |= self.of_index(index)
            self._facts[expr] = frozenset(found)
        return self._facts[root]

    def of_index(self, index: Index) -> Facts:
        found: set[Var | Ref] = set()
        for atom in index.terms:
            if isinstance(atom, Var):
                found.add(atom)
            else:
                found |= self.of(atom.expr) if isinstance(atom, Dyn) else self.of_index(atom.index)
        return frozenset(found)

    def lanes(self, index: Index, var: Var | None) -> tuple[int, Index] | None:
        """(step, base) when the index is base + step * var and `base` does not depend on var."""
        step, base = 0, const(index.const)
        for atom, k in index.terms.items():
            if atom is var:
                step += k
                continue
            part = Index({atom: k}, 0)
            if var is not None and var in self.of_index(part):
                split = self._quotient_lanes(atom, var) if isinstance(atom, Div | Mod) else None
                if split is None:
                    return None
                step, part = step + k * split[0], split[1] * k
            base += part
        return step, base

    def _quotient_lanes(self, atom: Div | Mod, var: Var) -> tuple[int, Index] | None:
        """A quotient in which the lanes never carry: all else is a multiple of more than them."""
        inner = self.lanes(atom.index, var)
        if inner is None:
            return None
        step, base = inner
        unit = gcd(atom.divisor, *base.terms.values())
        if not 0 <= base.const % unit + step * (var.extent - 1) < unit:
            return None
        return (0, base // atom.divisor) if isinstance(atom, Div) else (step, base % atom.divisor)


def fits_int32(index: Index) -> bool:
    """Whether every partial sum and product of the index is an int32."""
    total = abs(index.const)
    for atom, k in index.terms.items():
        total += abs(k) * max(abs(atom.low), abs(atom.high))
        if isinstance(atom, Div | Mod) and not fits_int32(raised(atom)):
            return False
    return total <= INT32_MAX


def unit_of(index: Index) -> int:
    """What every value of the index is a multiple of; 0 where it is always 0."""
    parts = [index.const]
    for atom, k in index.terms.items():
        inside = gcd(unit_of(atom.index), atom.divisor) if isinstance(atom, Mod) else 1
        parts.append(k * inside)
    return gcd(*parts)


def raised(atom: Div | Mod) -> Index:
    """The quotient's index plus the multiple of its divisor that makes it non-negative."""
    return atom.index + lift(atom) * atom.divisor


def lift(atom: Div | Mod) -> int:
    """How many divisors `raised` adds."""
    return max(0, -(atom.index.low // atom.divisor))
