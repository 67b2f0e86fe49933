"""Runs a GPU's kernel of the IR in numpy: the lanes of a workgroup in step, groups in turn.

As tests/ir_interpreter.py is: slow, obvious, without a renderer; an index that leaves its claimed
bounds, or its memory, raises. Lanes in step hide missing barriers; the boards detect those.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compilers.expr import postorder
from compilers.index import Index, Var
from compilers.ir import Barrier, Expr, If, Kernel, Loop, Ref, Stmt, Store, Valid
from tests.ir_interpreter import GARBAGE, Env, Interpreter, storage

Lanes = np.ndarray[Any, Any]
_OF_LANES = frozenset({"swap", "ballot", "below", "among"})


class GpuInterpreter(Interpreter):
    """Arrays are flat, one for each parameter. Registers are an array for each lane."""

    def __init__(self, kernel: Kernel, arrays: dict[Ref, Lanes], wave: int) -> None:
        super().__init__(kernel, arrays)
        self.wave, self.lanes = wave, np.arange(kernel.block)
        self.on = np.ones(kernel.block, bool)

    def run(self, groups: int | None = None) -> None:
        """Every workgroup, or the first `groups`, which may be more than there is work for."""
        grid, block = self.kernel.body, self.kernel.block
        with np.errstate(all="ignore"):
            for group in range(self.kernel.grid if groups is None else groups):
                for ref in self.kernel.locals:
                    shape = (ref.size,) if ref.space == "shared" else (block, ref.size)
                    self.memory[ref] = np.full(shape, GARBAGE, storage(ref.dtype))
                self.on = np.ones(block, bool)
                number: Any = group
                if grid.kind == "item":
                    number = group * block + self.lanes
                    self.on = number < grid.extent
                    number = np.minimum(number, grid.extent - 1)
                self._body(grid.body, {grid.var: number})

    def _body(self, body: tuple[Stmt, ...], env: Env) -> None:
        for stmt in body:
            self._stmt(stmt, env)

    def _stmt(self, stmt: Stmt, env: Env) -> None:
        if isinstance(stmt, Store):
            self._put([stmt], [env])
        elif isinstance(stmt, If):
            before = self.on
            self.on = before & self._holds(stmt.valid, env)
            if self.on.any():
                self._body(stmt.body, env)
            self.on = before
        elif isinstance(stmt, Barrier):
            if not self.on.all():
                raise ValueError("a barrier that some lanes do not reach")
        elif not isinstance(stmt, Loop):
            raise TypeError(f"no {stmt} here")
        elif stmt.kind == "lane":
            self._body(stmt.body, {**env, stmt.var: self.lanes})
        elif stmt.kind == "vector":
            for child in stmt.body:
                self._put([child] * stmt.extent, [{**env, stmt.var: i} for i in range(stmt.extent)])
        else:
            for i in range(stmt.extent):
                self._body(stmt.body, {**env, stmt.var: i})

    def _holds(self, valid: Valid, env: Env) -> Lanes:
        """Active lanes where it holds; an index is not evaluated where an earlier one fails."""
        holds = self.on.copy()
        for index, low, high in valid:
            at = self._of(index, env, holds)
            holds &= (low <= at) & (at < high)
        return holds

    def _of(self, index: Index, env: Env, lanes: Lanes) -> Lanes:
        """An index in some lanes; 0 in the others."""
        found = np.zeros(self.lanes.size, np.int64)
        if lanes.any():
            before, self.on = self.on, lanes
            part = {v: np.broadcast_to(at, found.shape) for v, at in env.items()}
            values = np.broadcast_to(self._checked(index, part), found.shape)
            found[lanes] = values[lanes]
            self.on = before
        return found

    def _checked(self, index: Index, env: Env) -> Lanes:
        """The index in every lane; the claim is checked where lanes are on."""
        total: Any = np.full(self.lanes.size, index.const, np.int64)
        for atom, k in index.terms.items():
            total = total + k * self._number(atom, env)
        bad = self.on & ((total < index.low) | (total > index.high))
        if bad.any():
            raise ValueError(f"{index} = {total[bad][0]} leaves {index.low}..{index.high}")
        return np.asarray(total)

    def _number(self, atom: Any, env: Env) -> Lanes:
        if isinstance(atom, Var):
            return np.asarray(env[atom])
        if hasattr(atom, "divisor"):
            inner = self._checked(atom.index, env)
            quotient = type(atom).__name__ == "Div"
            return inner // atom.divisor if quotient else inner % atom.divisor
        found = np.asarray(self._value(atom.expr, env)).astype(np.int64)
        bad = self.on & ((found < atom.low) | (found > atom.high))
        if bad.any():
            raise ValueError(f"{atom} = {found[bad][0]} leaves {atom.low}..{atom.high}")
        return found

    def _put(self, stmts: list[Any], envs: list[Env]) -> None:
        """Every element of a vector is evaluated before any is written."""
        made = []
        for stmt, env in zip(stmts, envs, strict=True):
            if not isinstance(stmt, Store):
                raise TypeError("a vector loop holds stores only")
            holds = self._holds(stmt.valid, env)
            value = self._value(stmt.value, env)
            made.append((stmt.ref, holds, self._place(stmt.ref, stmt.index, env, holds), value))
        for ref, holds, at, value in made:
            if ref.space == "register":
                self.memory[ref][self.lanes[holds], at[holds]] = value[holds]
            else:
                self.memory[ref][at[holds]] = value[holds]

    def _place(self, ref: Ref, index: Index, env: Env, holds: Lanes) -> Lanes:
        at = self._of(index, env, holds)
        if (holds & ((at < 0) | (at >= ref.size))).any():
            raise IndexError(f"{ref.name}[{at[holds]}] of {ref.size}")
        return at

    def _value(self, root: Expr, env: Env) -> Lanes:
        """A value in every lane; what lanes that are off hold is garbage."""
        memo: dict[Expr, Any] = {}
        for expr in postorder(root, memo.__contains__):
            found = np.broadcast_to(self._once(expr, env, memo), self.lanes.shape)
            memo[expr] = found.astype(storage(expr.dtype))
        return np.asarray(memo[root])

    def _once(self, expr: Expr, env: Env, memo: dict[Expr, Any]) -> Any:
        if expr.op == "load":
            load = expr.arg
            holds = self._holds(load.valid, env)
            at = self._place(load.ref, load.index, env, holds)
            memory = self.memory[load.ref]
            found = memory[self.lanes, at] if load.ref.space == "register" else memory[at]
            return np.where(holds, found, found.dtype.type(0))
        if expr.op == "index":
            return self._of(expr.arg, env, self.on)
        if expr.op == "valid":
            return self._holds(expr.arg, env)
        if expr.op == "bitcast":
            return memo[expr.src[0]].view(storage(expr.dtype))
        if expr.op in _OF_LANES:
            return self._of_lanes(expr, memo[expr.src[0]])
        return self._compute(expr, env, memo)

    def _of_lanes(self, expr: Expr, value: Lanes) -> Lanes:
        """Ops on values of all lanes of a wave, which are all present."""
        if expr.op == "swap":
            if not self.on.all():
                raise ValueError("a swap that some lanes do not reach")
            return value[self.lanes ^ expr.arg]
        waves = value.reshape(-1, self.wave)
        if expr.op == "ballot":
            if not self.on.all():
                raise ValueError("a ballot that some lanes do not reach")
            bits = [sum(int(bit) << lane for lane, bit in enumerate(wave)) for wave in waves]
            return np.repeat(np.array(bits, np.uint64), self.wave)
        counts = []
        for lane, word in enumerate(value):
            mask = (1 << lane % self.wave) - 1 if expr.op == "below" else (1 << self.wave) - 1
            counts.append((int(word) & mask).bit_count())
        return np.array(counts)
