"""Index arithmetic in a normal form: an integer sum of terms, with bounds.

    Index = const + sum(coefficient * atom)
    atom  = Var | Div(Index, c) | Mod(Index, c) | Dyn(Expr)

Division and remainder simplify by bounds, so that reshapes of views disappear:
(4*i + j) // 4 is i and (4*i + j) % 4 is j when 0 <= j < 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias


class Var:
    """A loop variable, 0 <= var < extent. Two variables are equal only when the same object."""

    __slots__ = ("extent", "name")

    def __init__(self, name: str, extent: int) -> None:
        self.name, self.extent = name, extent

    @property
    def low(self) -> int:
        return 0

    @property
    def high(self) -> int:
        return max(self.extent - 1, 0)

    def __repr__(self) -> str:
        return self.name


class _Quotient:
    """Common part of Div and Mod: an index and a positive divisor; equal by value."""

    __slots__ = ("_hash", "divisor", "high", "index", "low")

    def __init__(self, index: Index, divisor: int, low: int, high: int) -> None:
        self.index, self.divisor, self.low, self.high = index, divisor, low, high
        self._hash = hash((type(self), index, divisor))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            type(self) is type(other)
            and isinstance(other, _Quotient)
            and self.divisor == other.divisor
            and self.index == other.index
        )


class Div(_Quotient):
    """index // divisor, rounding down."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"({self.index})//{self.divisor}"


class Mod(_Quotient):
    """index % divisor, 0 <= result < divisor."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"({self.index})%{self.divisor}"


class Dyn:
    """An index read from memory: an int64 Expr that the kernel keeps within low..high."""

    __slots__ = ("expr", "high", "low")

    def __init__(self, expr: Any, low: int, high: int) -> None:
        self.expr, self.low, self.high = expr, low, high

    def __hash__(self) -> int:
        return id(self.expr)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dyn) and self.expr is other.expr

    def __repr__(self) -> str:
        return f"dyn{id(self.expr) & 0xFFFF:x}"


Atom: TypeAlias = Var | Div | Mod | Dyn


class Index:
    """An immutable sum of terms with inclusive bounds `low` and `high`; equal by value."""

    __slots__ = ("_hash", "const", "high", "low", "terms")

    def __init__(self, terms: Mapping[Atom, int], const: int) -> None:
        self.terms = {atom: k for atom, k in terms.items() if k and atom.low != atom.high}
        for atom, k in terms.items():
            if atom.low == atom.high:
                const += k * atom.low
        self.const = self.low = self.high = const
        for atom, k in self.terms.items():
            self.low += k * (atom.low if k > 0 else atom.high)
            self.high += k * (atom.high if k > 0 else atom.low)
        self._hash = hash((const, frozenset(self.terms.items())))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Index)
            and self._hash == other._hash
            and self.const == other.const
            and self.terms == other.terms
        )

    def __repr__(self) -> str:
        parts = [f"{k}*{atom!r}" if k != 1 else repr(atom) for atom, k in self.terms.items()]
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts)

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.const + other) if other else self
        terms = dict(self.terms)
        for atom, k in other.terms.items():
            terms[atom] = terms.get(atom, 0) + k
        return Index(terms, self.const + other.const)

    def __mul__(self, factor: int) -> Index:
        if factor == 1:
            return self
        return Index({atom: k * factor for atom, k in self.terms.items()}, self.const * factor)

    def __sub__(self, other: Index | int) -> Index:
        return self + (-other if isinstance(other, int) else other * -1)

    def __floordiv__(self, divisor: int) -> Index:
        return self._divide(divisor)[0]

    def __mod__(self, divisor: int) -> Index:
        return self._divide(divisor)[1]

    def _divide(self, divisor: int) -> tuple[Index, Index]:
        """Quotient and remainder: terms that are whole multiples leave, bounds decide the rest."""
        if divisor == 1:
            return self, const(0)
        parts = {atom: divmod(k, divisor) for atom, k in self.terms.items()}
        for atom, k in self.terms.items():
            if -divisor < k < 0:
                parts[atom] = (0, k)
        quotient = Index({atom: q for atom, (q, _) in parts.items()}, self.const // divisor)
        rest = Index({atom: r for atom, (_, r) in parts.items()}, self.const % divisor)
        whole = rest.low // divisor
        if whole == rest.high // divisor:
            return quotient + whole, rest - whole * divisor
        div, mod = (
            kind(rest, divisor, low, high)
            for kind, low, high in (
                (Div, rest.low // divisor, rest.high // divisor),
                (Mod, 0, divisor - 1),
            )
        )
        return quotient + Index({div: 1}, 0), Index({mod: 1}, 0)

    def substitute(
        self, env: Mapping[Any, Index], dyn: Callable[[Dyn], Dyn] | None = None
    ) -> Index:
        """Replace variables (keys of `env`) and, by `dyn`, dynamic atoms; simplify again."""
        if not any(atom in env or not isinstance(atom, Var) for atom in self.terms):
            return self
        result = const(self.const)
        for atom, k in self.terms.items():
            if isinstance(atom, _Quotient):
                inner = atom.index.substitute(env, dyn)
                part = inner // atom.divisor if isinstance(atom, Div) else inner % atom.divisor
                result += part * k
            elif isinstance(atom, Dyn):
                result += Index({dyn(atom) if dyn else atom: k}, 0)
            else:
                found = env.get(atom)
                result += found * k if found is not None else Index({atom: k}, 0)
        return result

    def vars(self) -> set[Var]:
        """The loop variables it depends on, except those inside Dyn."""
        found: set[Var] = set()
        for atom in self.terms:
            if isinstance(atom, Var):
                found.add(atom)
            elif isinstance(atom, _Quotient):
                found |= atom.index.vars()
        return found

    def as_var(self) -> Var | None:
        """The variable, when the index is exactly one variable."""
        if self.const == 0 and len(self.terms) == 1:
            ((atom, k),) = self.terms.items()
            if k == 1 and isinstance(atom, Var):
                return atom
        return None


def const(value: int) -> Index:
    """The index that is always `value`."""
    return Index({}, value)


def var(v: Var) -> Index:
    """The index that is the variable."""
    return Index({v: 1}, 0)


def flatten(indices: Iterable[Index], shape: Iterable[int]) -> Index:
    """Row-major position of a tuple of indices."""
    position = const(0)
    for index, extent in zip(indices, shape, strict=True):
        position = position * extent + index
    return position


def unflatten(position: Index, shape: tuple[int, ...]) -> tuple[Index, ...]:
    """The tuple of indices at a row-major position; the inverse of `flatten`."""
    result: list[Index] = []
    for extent in reversed(shape):
        result.append(position % extent if extent else const(0))
        position = position // extent if extent else const(0)
    return tuple(reversed(result))
