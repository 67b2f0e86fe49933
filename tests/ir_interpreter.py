"""Runs a kernel of the IR statement by statement in numpy: slow, obvious, without a renderer.

The lanes of a vector loop are an array; everything else is one scalar after another. An index that
leaves its claimed bounds, or its memory, raises.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from compilers.dtype import DType
from compilers.index import Atom, Div, Dyn, Index, Mod, Var
from compilers.ir import Expr, If, Kernel, Loop, Ref, Stmt, Store, Valid

Env = dict[Var, Any]
"""Loop variable -> its number, or its number in every lane."""
GARBAGE = 77
_OPS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum,
    "min": np.minimum, "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift,
    "shr": np.right_shift, "floordiv": np.floor_divide, "mod": np.remainder, "pow": np.power,
    "neg": np.negative, "invert": np.invert,
}  # fmt: skip
"""Ops that numpy names otherwise."""


@functools.cache
def storage(dtype: DType) -> np.dtype[Any]:
    """numpy's dtype for an IR dtype."""
    return np.dtype(dtype.storage)


def chosen(env: Env, lanes: Any) -> Env:
    """The environment of some of the lanes."""
    return {v: at[lanes] if isinstance(at, np.ndarray) else at for v, at in env.items()}


def some(holds: Any) -> bool:
    """Whether it holds in any lane."""
    return bool(holds.any()) if isinstance(holds, np.ndarray) else bool(holds)


def every(holds: Any) -> bool:
    """Whether it holds in all lanes."""
    return bool(holds.all()) if isinstance(holds, np.ndarray) else bool(holds)


def outside(found: Any, low: int, high: int) -> bool:
    """Whether any lane leaves low..high."""
    if isinstance(found, np.ndarray):
        return bool((found < low).any() or (found > high).any())
    return not low <= found <= high


def within(claim: Index | Dyn, found: Any) -> Any:
    """The value found, checked against the claim."""
    if outside(found, claim.low, claim.high):
        raise ValueError(f"{claim} = {found} leaves {claim.low}..{claim.high}")
    return found


class Interpreter:
    """Arrays are flat, one for each parameter; locals start as garbage."""

    def __init__(self, kernel: Kernel, arrays: Mapping[Ref, np.ndarray[Any, Any]]) -> None:
        self.kernel, self.memory = kernel, dict(arrays)
        self.programs: dict[Index, Callable[[Env], Any]] = {}
        for ref in kernel.locals:
            self.memory[ref] = np.full(ref.size, GARBAGE, storage(ref.dtype))

    def run(self) -> None:
        with np.errstate(all="ignore"):
            self._stmt(self.kernel.body, {})

    def _stmt(self, stmt: Stmt, env: Env) -> None:
        if isinstance(stmt, Store):
            self._store(stmt, env)
        elif isinstance(stmt, If):
            if self._valid(stmt.valid, env):
                for child in stmt.body:
                    self._stmt(child, env)
        elif stmt.kind == "vector":
            for child in stmt.body:
                self._store(child, {**env, stmt.var: np.arange(stmt.extent)})
        else:
            for i in range(stmt.extent):
                inner = {**env, stmt.var: i}
                for child in stmt.body:
                    self._stmt(child, inner)

    def _store(self, stmt: Store | Loop | If, env: Env) -> None:
        """Every lane is evaluated before any is written; lanes write in order."""
        if not isinstance(stmt, Store):
            raise TypeError("a vector loop holds stores only")
        holds = self._valid(stmt.valid, env)
        if some(holds):
            env = env if every(holds) else chosen(env, holds)
            at, value = self._position(stmt.ref, stmt.index, env), self._expr(stmt.value, env, {})
            if value.shape and not isinstance(at, np.ndarray):
                at = np.full(value.shape, at)
            self.memory[stmt.ref][at] = value

    def _position(self, ref: Ref, index: Index, env: Env) -> Any:
        at = self._index(index, env)
        if outside(at, 0, ref.size - 1):
            raise IndexError(f"{ref.name}[{at}] of {ref.size}")
        return at

    def _valid(self, valid: Valid, env: Env) -> Any:
        holds: Any = True
        for index, low, high in valid:
            at = self._index(index, env)
            holds = holds & (low <= at) & (at < high)
        return holds

    def _index(self, index: Index, env: Env) -> Any:
        program = self.programs.get(index)
        if program is None:
            names: dict[str, Any] = {}
            program = eval(f"lambda env: {self._text(index, names)}", names)
            self.programs[index] = program
        return within(index, program(env))

    def _text(self, index: Index, names: dict[str, Any]) -> str:
        """The index as Python; what it names goes into `names`."""
        parts = [f"{k} * {self._atom(atom, names)}" for atom, k in index.terms.items()]
        return " + ".join([*parts, str(index.const)])

    def _atom(self, atom: Atom, names: dict[str, Any]) -> str:
        name = f"n{len(names)}"
        if isinstance(atom, Div | Mod):
            sign = "//" if isinstance(atom, Div) else "%"
            return f"(({self._text(atom.index, names)}) {sign} {atom.divisor})"
        if isinstance(atom, Dyn):
            names[name] = lambda env: within(atom, self._expr(atom.expr, env, {}).astype(np.int64))
            return f"{name}(env)"
        names[name] = atom
        return f"env[{name}]"

    def _expr(self, expr: Expr, env: Env, memo: dict[Expr, Any]) -> Any:
        if expr not in memo:
            found, dtype = self._compute(expr, env, memo), storage(expr.dtype)
            if getattr(found, "dtype", None) is not dtype:
                lanes = isinstance(found, np.ndarray) and found.shape
                found = found.astype(dtype) if lanes else dtype.type(found)
            memo[expr] = found
        return memo[expr]

    def _compute(self, expr: Expr, env: Env, memo: dict[Expr, Any]) -> Any:
        if expr.op == "const":
            return expr.arg
        if expr.op == "load":
            return self._load(expr, env)
        if expr.op == "index":
            return self._index(expr.arg, env)
        if expr.op == "valid":
            return self._valid(expr.arg, env)
        source = [self._expr(child, env, memo) for child in expr.src]
        if expr.op == "where":
            return np.where(*source) if source[0].shape else source[1 if source[0] else 2]
        if expr.op == "cast":
            return source[0].astype(storage(expr.dtype))
        if expr.op == "fma":
            return source[0].astype(np.float64) * source[1] + source[2]
        result = _OPS.get(expr.op, getattr(np, expr.op, None))(*source)
        if expr.op in {"floordiv", "mod"} and expr.dtype.kind in "iu":
            return np.where(source[1] == 0, 0, result)
        return result

    def _load(self, expr: Expr, env: Env) -> Any:
        """Lanes that are not valid do not read, and their index is not computed."""
        ref, holds = expr.arg.ref, self._valid(expr.arg.valid, env)
        if not some(holds):
            return 0
        if every(holds):
            return self.memory[ref][self._position(ref, expr.arg.index, env)]
        found = np.zeros(holds.shape, storage(ref.dtype))
        found[holds] = self.memory[ref][self._position(ref, expr.arg.index, chosen(env, holds))]
        return found
