"""Bytes that a GPU kernel's lanes load from memory, from its loop nest.

A load is counted once in each iteration of the loops around it; in unrolled and vector loops
only where it depends on their variable, since equal values are shared there.
"""

from __future__ import annotations

from collections.abc import Sequence

from compilers import expr as ex
from compilers.index import Index, Var
from compilers.ir import COPIED_BYTES, Copy, Expr, If, Kernel, Load, Loop, Stmt, Store

_SHARED = frozenset({"unroll", "vector"})


def asked_bytes(kernel: Kernel) -> int:
    """Bytes of all loads from the kernel's parameters, each lane's counted."""
    return _asked((kernel.body,), 1, ())


def _asked(body: Sequence[Stmt], times: int, shared: tuple[Var, ...]) -> int:
    total = 0
    for statement in body:
        if isinstance(statement, Store):
            values = [statement.value, *_computed(statement.index)]
            loads = [read for value in values for read in ex.loads(value)]
            total += sum(_bytes(read, times, shared) for read in loads)
        elif isinstance(statement, Loop) and statement.kind in _SHARED:
            total += _asked(statement.body, times, (*shared, statement.var))
        elif isinstance(statement, Loop):
            total += _asked(statement.body, times * statement.extent, shared)
        elif isinstance(statement, Copy):
            read = Load(statement.source, statement.at, statement.valid)
            total += _bytes(read, times, shared) * COPIED_BYTES // read.ref.dtype.itemsize
        elif isinstance(statement, If):
            total += _asked(statement.body, times, shared)
    return total


def _computed(index: Index) -> list[Expr]:
    return list(ex.dynamic(index))


def _bytes(read: Load, times: int, shared: Sequence[Var]) -> int:
    if read.ref.space != "global":
        return 0
    used = {v for index in (read.index, *(i for i, _, _ in read.valid)) for v in index.vars()}
    for var in shared:
        times *= var.extent if var in used else 1
    return times * read.ref.dtype.itemsize
