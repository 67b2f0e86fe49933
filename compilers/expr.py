"""Building, searching and rewriting kernel expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.index import Div, Dyn, Index, Mod, Var
from compilers.ir import Expr, Load, Ref, Valid

COMBINE = {"add": "add", "mul": "mul", "max": "max", "min": "min"}
"""Reduction kind -> the binary op that joins two partial results."""


def const(value: float, dtype: DType) -> Expr:
    """One number."""
    return Expr("const", dtype, (), value)


def load(ref: Ref, index: Index, valid: Valid = ()) -> Expr:
    """The element of `ref` at `index`, or 0 where `valid` does not hold."""
    return Expr("load", ref.dtype, (), Load(ref, index, valid))


def identity(kind: str, dtype: DType) -> float:
    """The neutral element: -0.0 rather than 0.0, so that the sum of -0.0 is -0.0."""
    if kind == "add":
        return -0.0 if dtype.kind == "f" else 0
    if kind == "mul":
        return 1
    if dtype.kind == "f":
        return float("-inf") if kind == "max" else float("inf")
    low, high = dt.limits(dtype)
    return low if kind == "max" else high


def converted(value: Expr, dtype: DType) -> Expr:
    """The value as another dtype, if it is not."""
    return value if value.dtype is dtype else Expr("cast", dtype, (value,))


def bounded(conditions: Iterable[tuple[Index, int, int]]) -> Valid:
    """The conditions that bounds do not prove, each once."""
    return tuple(dict.fromkeys(
        (index, low, high) for index, low, high in conditions
        if index.low < low or index.high >= high))  # fmt: skip


def guarded(value: Expr, guard: Valid, otherwise: Expr) -> Expr:
    """`value` where `guard` holds, else `otherwise`."""
    if not guard:
        return value
    return Expr("where", value.dtype, (Expr("valid", dt.bool_, (), guard), value, otherwise))


class Rewriter:
    """Copies expressions with variables, accumulators and predicates replaced; keeps sharing."""

    def __init__(
        self,
        env: Mapping[Var, Index],
        replace: Mapping[Expr, Expr] | None = None,
        guard: Valid = (),
    ) -> None:
        self._env, self._guard = env, guard
        self._memo: dict[Expr, Expr] = dict(replace or {})

    def index(self, index: Index) -> Index:
        return index.substitute(self._env, self._dyn)

    def valid(self, valid: Valid) -> Valid:
        return bounded((self.index(index), low, high) for index, low, high in valid)

    def _dyn(self, atom: Dyn) -> Dyn:
        return Dyn(self.expr(atom.expr), atom.low, atom.high)

    def expr(self, root: Expr) -> Expr:
        for expr in postorder(root, self._memo.__contains__):
            self._memo[expr] = self._copy(expr)
        return self._memo[root]

    def _copy(self, expr: Expr) -> Expr:
        if expr.op == "load":
            read: Load = expr.arg
            valid = bounded((*self.valid(read.valid), *self._guard))
            return load(read.ref, self.index(read.index), valid)
        if expr.op == "index":
            return Expr("index", expr.dtype, (), self.index(expr.arg))
        if expr.op == "valid":
            return Expr("valid", expr.dtype, (), self.valid(expr.arg))
        if not expr.src:
            return expr
        return Expr(expr.op, expr.dtype, tuple(map(self._memo.__getitem__, expr.src)), expr.arg)


def postorder(root: Expr, known: Callable[[Expr], bool]) -> Iterator[Expr]:
    """Unknown expressions below `root`, operands first; each is known once yielded. Iterative."""
    stack, opened = [root], set[Expr]()
    while stack:  # each expression is opened once
        expr = stack.pop()
        if known(expr):
            continue
        if expr in opened:
            yield expr
        else:
            opened.add(expr)
            stack += (expr, *reversed(expr.src))


def walk(roots: Iterable[Expr]) -> Iterator[Expr]:
    """Every expression below `roots`, each once, those inside dynamic indices too."""
    seen: set[Expr] = set()
    stack = list(roots)
    while stack:
        expr = stack.pop()
        if expr in seen:
            continue
        seen.add(expr)
        yield expr
        stack.extend(expr.src)
        for index in indices(expr):
            stack.extend(dynamic(index))


def indices(expr: Expr) -> list[Index]:
    """The indices one expression holds itself."""
    if expr.op == "load":
        return [expr.arg.index, *(index for index, _, _ in expr.arg.valid)]
    if expr.op == "index":
        return [expr.arg]
    if expr.op == "valid":
        return [index for index, _, _ in expr.arg]
    return []


def dynamic(index: Index) -> Iterator[Expr]:
    """The expressions of an index's dynamic atoms."""
    for atom in index.terms:
        if isinstance(atom, Dyn):
            yield atom.expr
        elif isinstance(atom, Div | Mod):
            yield from dynamic(atom.index)


def variables(root: Expr) -> set[Var]:
    """The loop variables a value depends on."""
    return {v for expr in walk([root]) for index in indices(expr) for v in index.vars()}


def loads(root: Expr) -> list[Load]:
    """Every read below a value."""
    return [expr.arg for expr in walk([root]) if expr.op == "load"]
