"""Runs a kernel of the IR one scalar at a time in numpy: slow, obvious, without a renderer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from compilers import dtype as dt
from compilers.index import Div, Dyn, Index, Mod, Var
from compilers.ir import Expr, If, Kernel, Loop, Ref, Stmt, Store, Valid

_TWO = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum,
    "min": np.minimum, "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift,
    "shr": np.right_shift, "floordiv": np.floor_divide, "mod": np.remainder, "pow": np.power,
}  # fmt: skip
_ONE = {"neg": np.negative, "invert": np.invert, "rint": np.rint, "abs": np.abs}


def storage(dtype: dt.DType) -> np.dtype[Any]:
    """numpy's dtype for an IR dtype that numpy has."""
    return np.dtype(dtype.name)


class Interpreter:
    """Arrays are flat; an access outside one raises IndexError."""

    def __init__(self, kernel: Kernel, arrays: Mapping[Ref, np.ndarray[Any, Any]]) -> None:
        self.kernel, self.memory = kernel, dict(arrays)
        for ref in kernel.locals:
            self.memory[ref] = np.full(ref.size, 77, storage(ref.dtype))

    def run(self) -> None:
        with np.errstate(all="ignore"):
            self._stmt(self.kernel.body, {})

    def _stmt(self, stmt: Stmt, env: dict[Var, int]) -> None:
        if isinstance(stmt, Loop):
            for i in range(stmt.extent):
                inner = {**env, stmt.var: i}
                for child in stmt.body:
                    self._stmt(child, inner)
        elif isinstance(stmt, If):
            if self._valid(stmt.valid, env):
                for child in stmt.body:
                    self._stmt(child, env)
        elif self._valid(stmt.valid, env):
            value = self._expr(stmt.value, env, {})
            self.memory[stmt.ref][self._position(stmt, env)] = value

    def _position(self, stmt: Store, env: dict[Var, int]) -> int:
        at = self._index(stmt.index, env)
        if at < 0:
            raise IndexError(at)
        return at

    def _valid(self, valid: Valid, env: dict[Var, int]) -> bool:
        return all(low <= self._index(index, env) < high for index, low, high in valid)

    def _index(self, index: Index, env: dict[Var, int]) -> int:
        total = index.const
        for atom, k in index.terms.items():
            if isinstance(atom, Var):
                total += k * env[atom]
            elif isinstance(atom, Dyn):
                total += k * int(self._expr(atom.expr, env, {}))
            elif isinstance(atom, Div):
                total += k * (self._index(atom.index, env) // atom.divisor)
            elif isinstance(atom, Mod):
                total += k * (self._index(atom.index, env) % atom.divisor)
        if not index.low <= total <= index.high:
            raise ValueError(f"{index} = {total} leaves {index.low}..{index.high}")
        return total

    def _expr(self, expr: Expr, env: dict[Var, int], memo: dict[Expr, Any]) -> Any:
        if expr not in memo:
            memo[expr] = storage(expr.dtype).type(self._compute(expr, env, memo))
        return memo[expr]

    def _compute(self, expr: Expr, env: dict[Var, int], memo: dict[Expr, Any]) -> Any:
        if expr.op == "const":
            return expr.arg
        if expr.op == "load":
            if not self._valid(expr.arg.valid, env):
                return 0
            at = self._index(expr.arg.index, env)
            if at < 0:
                raise IndexError(at)
            return self.memory[expr.arg.ref][at]
        if expr.op == "index":
            return self._index(expr.arg, env)
        if expr.op == "valid":
            return self._valid(expr.arg, env)
        source = [self._expr(child, env, memo) for child in expr.src]
        if expr.op == "where":
            return source[1] if source[0] else source[2]
        if expr.op == "cast":
            return source[0].astype(storage(expr.dtype))
        if expr.op == "fma":
            return np.float64(source[0]) * np.float64(source[1]) + np.float64(source[2])
        table: Mapping[str, Any] = _ONE if len(source) == 1 else _TWO
        return table.get(expr.op, getattr(np, expr.op, None))(*source)
