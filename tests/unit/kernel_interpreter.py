"""What a kernel means, told slowly: each index and value by Python and numpy scalars.

It shares nothing with the renderers but the IR. Reading or writing outside a ref raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compilers.index import Div, Dyn, Index, Mod, Var
from compilers.ir import Expr, If, Kernel, Loop, Ref, Stmt, Store, Valid

ULP_FREE = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "lt": np.less,
    "le": np.less_equal, "eq": np.equal, "ne": np.not_equal, "neg": np.negative, "abs": np.abs,
    "floordiv": np.floor_divide, "mod": np.remainder, "floor": np.floor, "rint": np.rint,
    "copysign": np.copysign, "shl": np.left_shift, "shr": np.right_shift, "invert": np.invert,
    "sqrt": np.sqrt, "div": np.divide,
}  # fmt: skip


class Interpreter:
    """Runs a kernel over arrays of its parameters' dtypes."""

    def __init__(self, kernel: Kernel, arrays: Sequence[np.ndarray]) -> None:
        self.kernel = kernel
        self.memory: dict[Ref, np.ndarray] = dict(zip(kernel.params, arrays, strict=True))
        for ref in kernel.locals:
            self.memory[ref] = np.zeros(ref.size, ref.dtype.storage)
        self.env: dict[Var, int] = {}

    def run(self) -> None:
        with np.errstate(all="ignore"):
            self.statement(self.kernel.body)

    def statement(self, stmt: Stmt) -> None:
        if isinstance(stmt, Store):
            self.store_all(stmt, [dict(self.env)])
        elif isinstance(stmt, If):
            if self.holds(stmt.valid):
                for inner in stmt.body:
                    self.statement(inner)
        elif stmt.kind == "vector":
            self.vector(stmt)
        else:
            for i in range(stmt.extent):
                self.env[stmt.var] = i
                for inner in stmt.body:
                    self.statement(inner)

    def vector(self, loop: Loop) -> None:
        """Every lane of a store is evaluated before any is written; lanes write in order."""
        for stmt in loop.body:
            if not isinstance(stmt, Store):
                raise TypeError("a vector loop holds stores only")
            self.store_all(stmt, [{**self.env, loop.var: lane} for lane in range(loop.extent)])

    def store_all(self, stmt: Store, lanes: list[dict[Var, int]]) -> None:
        outer, pending = self.env, []
        for env in lanes:
            self.env = env
            if self.holds(stmt.valid):
                pending.append((self.index(stmt.index), self.value(stmt.value)))
        self.env = outer
        for place, value in pending:
            self.memory[stmt.ref][self.inside(stmt.ref, place)] = value

    @staticmethod
    def inside(ref: Ref, place: int) -> int:
        if not 0 <= place < ref.size:
            raise IndexError(f"{ref.name}[{place}] of {ref.size}")
        return place

    def holds(self, valid: Valid) -> bool:
        return all(low <= self.index(index) < high for index, low, high in valid)

    def index(self, index: Index) -> int:
        return index.const + sum(k * self.atom(atom) for atom, k in index.terms.items())

    def atom(self, atom: Any) -> int:
        if isinstance(atom, Var):
            return self.env[atom]
        if isinstance(atom, Div):
            return self.index(atom.index) // atom.divisor
        if isinstance(atom, Mod):
            return self.index(atom.index) % atom.divisor
        if isinstance(atom, Dyn):
            return int(self.value(atom.expr))
        raise TypeError(f"not an atom: {atom!r}")

    def value(self, expr: Expr) -> Any:
        dtype = np.dtype(expr.dtype.storage)
        if expr.op == "const":
            return dtype.type(expr.arg)
        if expr.op == "index":
            return np.int64(self.index(expr.arg))
        if expr.op == "valid":
            return np.bool_(self.holds(expr.arg))
        if expr.op == "load":
            if not self.holds(expr.arg.valid):
                return dtype.type(0)
            return self.memory[expr.arg.ref][self.inside(expr.arg.ref, self.index(expr.arg.index))]
        source = [self.value(s) for s in expr.src]
        if expr.op == "where":
            return source[1] if source[0] else source[2]
        if expr.op == "cast":
            return source[0].astype(dtype)
        result = ULP_FREE[expr.op](*source)
        if expr.op in {"floordiv", "mod"} and dtype.kind in "iu" and source[1] == 0:
            return dtype.type(0)
        return dtype.type(result)
