"""Loop nests and the schedule steps that shape them.

A `Nest` starts as one serial loop per axis. Steps change the loops, never the meaning:

    split(loop, factor)      one loop becomes two; a remainder becomes a guard
    fuse(loops)              several loops become one
    reorder(loops)           a new order, outermost first
    bind(loop)               the loop the launch covers (the grid)
    vectorise(loop) unroll(loop)
    stage(value, at, layout) copy a tile of an operand into faster memory in a better layout
    tensorise(...)           tensorise.py: replace the innermost product by an instruction

`env()` is every axis as an index over the current loops, `guard()` what must hold for an iteration
to exist, and `wrap(loops, body)` puts statements into loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from compilers import expr as ex
from compilers import index as ix
from compilers.index import Index, Var
from compilers.ir import Expr, Loop, Ref, Stmt, Store, Valid


class Nest:
    """Loops over `axes`, outermost first; see the module for the steps."""

    def __init__(self, axes: Sequence[Var]) -> None:
        self.axes = tuple(axes)
        self.loops: list[Var] = [Var(axis.name, axis.extent) for axis in axes]
        self._kinds: dict[Var, str] = {}
        self._env: dict[Var, Index] = {
            axis: ix.var(loop) for axis, loop in zip(axes, self.loops, strict=True)
        }

    def env(self) -> dict[Var, Index]:
        """Every axis as an index over the loops."""
        return dict(self._env)

    def guard(self, axes: Sequence[Var]) -> Valid:
        """Conditions of splits with a remainder for `axes`, less those that bounds prove."""
        return ex.bounded((self._env[axis], 0, axis.extent) for axis in axes)

    def split(self, loop: Var, factor: int) -> tuple[Var, Var]:
        """loop = outer * factor + inner."""
        outer = Var(f"{loop.name}o", -(-loop.extent // factor))
        inner = Var(f"{loop.name}i", factor)
        self._replace([loop], [outer, inner], {loop: ix.var(outer) * factor + ix.var(inner)})
        return outer, inner

    def fuse(self, loops: Sequence[Var], name: str) -> Var:
        """Neighbouring loops as one, row-major."""
        fused = Var(name, prod(loop.extent for loop in loops))
        parts = ix.unflatten(ix.var(fused), tuple(loop.extent for loop in loops))
        self._replace(loops, [fused], dict(zip(loops, parts, strict=True)))
        return fused

    def _replace(self, old: Sequence[Var], new: Sequence[Var], env: Mapping[Var, Index]) -> None:
        at = self.loops.index(old[0]) if old else 0
        if self.loops[at : at + len(old)] != list(old):
            raise ValueError(f"{old} are not neighbours in {self.loops}")
        self.loops[at : at + len(old)] = new
        self._env = {axis: index.substitute(env) for axis, index in self._env.items()}

    def reorder(self, loops: Sequence[Var]) -> None:
        if set(loops) != set(self.loops) or len(loops) != len(self.loops):
            raise ValueError(f"{loops} is not an order of {self.loops}")
        self.loops = list(loops)

    def bind(self, loop: Var) -> None:
        self._kinds[loop] = "grid"

    def vectorise(self, loop: Var) -> None:
        if loop.extent & (loop.extent - 1):
            raise ValueError(f"a vector of {loop.extent} lanes is not a power of two")
        self._kinds[loop] = "vector"

    def unroll(self, *loops: Var) -> None:
        for loop in loops:
            self._kinds[loop] = "unroll"

    def stage(self, value: Expr, ref: Ref, layout: Sequence[Var]) -> tuple[Expr, tuple[Stmt, ...]]:
        """Copy the tile of `value` (over axes) that the `layout` loops span into `ref`.

        Returns the load that replaces `value`, and the statements that fill the tile, which belong
        before the outermost layout loop. Iterations that do not exist are filled with zero. The
        copy's innermost loop is the one along which the operand is contiguous; it is a vector when
        the tile is contiguous along it too.
        """
        used = ex.variables(value)
        fresh = {loop: Var(f"{ref.name}_{loop.name}", loop.extent) for loop in layout}
        env = {loop: ix.var(new) for loop, new in fresh.items()}
        guard = ex.bounded(
            (self._env[axis].substitute(env), 0, axis.extent) for axis in self.axes if axis in used
        )
        value = ex.Rewriter(self._env).expr(value)
        source = ex.Rewriter(env, guard=guard).expr(value)
        source = ex.guarded(source, guard, ex.const(0, value.dtype))
        extents = [loop.extent for loop in layout]
        at = ix.flatten((ix.var(fresh[loop]) for loop in layout), extents)
        fast = _contiguous_loop(value, layout)
        wide = fast is layout[-1] and self._kinds.get(fast) == "vector"
        copy: tuple[Stmt, ...] = (Store(ref, at, source),)
        for loop in (fast, *(loop for loop in reversed(layout) if loop is not fast)):
            copy = (Loop(fresh[loop], "vector" if wide and loop is fast else "serial", copy),)
        return ex.load(ref, ix.flatten(map(ix.var, layout), extents)), copy

    def wrap(self, loops: Sequence[Var], body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """`body` inside `loops`, outermost first, each of the kind its steps gave it."""
        result = tuple(body)
        for loop in reversed(loops):
            result = (Loop(loop, self._kinds.get(loop, "serial"), result),)
        return result


def _contiguous_loop(value: Expr, loops: Sequence[Var]) -> Var:
    """The loop that most reads of `value` walk with unit stride; of equals, the last."""
    reads = [read.index for read in ex.loads(value)]
    return max(reversed(loops), key=lambda v: sum(index.terms.get(v) == 1 for index in reads))
