"""Copies of statements with memory and loop variables replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from compilers import expr as ex
from compilers.index import Index, Var
from compilers.ir import (
    Copy,
    Expr,
    Gather,
    If,
    Load,
    Loop,
    Matrix,
    Ref,
    Stmt,
    Store,
    TileMatrix,
    TileOperand,
)


class StatementRewriter(ex.Rewriter):
    """Replaces refs, and variables by indices over variables that are around the statements."""

    def __init__(self, refs: Mapping[Ref, Ref], env: Mapping[Var, Index]) -> None:
        super().__init__(env)
        self._refs = refs

    def _copy(self, expr: Expr) -> Expr:
        if expr.op != "load":
            return super()._copy(expr)
        read: Load = expr.arg
        return ex.load(self._ref(read.ref), self.index(read.index), self.valid(read.valid))

    def _ref(self, ref: Ref) -> Ref:
        return self._refs.get(ref, ref)

    def body(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """The statements, copied."""
        return tuple(map(self.statement, body))

    def statement(self, statement: Stmt) -> Stmt:
        """One statement, copied."""
        if isinstance(statement, Store):
            return replace(
                statement,
                ref=self._ref(statement.ref),
                index=self.index(statement.index),
                value=self.expr(statement.value),
                valid=self.valid(statement.valid),
            )
        if isinstance(statement, Loop):
            return replace(statement, body=self.body(statement.body))
        if isinstance(statement, If):
            return If(self.valid(statement.valid), self.body(statement.body))
        if isinstance(statement, Matrix):
            return replace(
                statement,
                acc=self._ref(statement.acc),
                a=self._ref(statement.a),
                a_index=self.index(statement.a_index),
                b=self._ref(statement.b),
                b_index=self.index(statement.b_index),
            )
        if isinstance(statement, Gather):
            to, source = self._ref(statement.to), self._ref(statement.source)
            return replace(statement, to=to, source=source, index=self.index(statement.index))
        if isinstance(statement, Copy):
            return Copy(
                self._ref(statement.to),
                self.index(statement.index),
                self._ref(statement.source),
                self.index(statement.at),
                self.valid(statement.valid),
            )
        if isinstance(statement, TileMatrix):
            a, b = map(self._operand, (statement.a, statement.b))
            return replace(statement, acc=self._ref(statement.acc), a=a, b=b)
        return statement

    def _operand(self, operand: TileOperand) -> TileOperand:
        return replace(operand, ref=self._ref(operand.ref), index=self.index(operand.index))
