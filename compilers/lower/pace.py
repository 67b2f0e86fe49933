"""How much a CPU kernel computes, and where a long one polls whether to continue.

A kernel of many instructions reads the HOLD bit of its packet (queues/cpu/packets.py) between
chunks of its grid, and in loops that are long themselves. The counts are rough: they only decide
which kernels poll, and how often.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compilers.expr import postorder
from compilers.graph import MATH1, MATH2
from compilers.ir import Expr, If, Kernel, Loop, Stmt, Store
from queues.cpu.kernel_code import CpuCode

LONG: Final = 1 << 28
"""From so many instructions on a kernel can be stopped: 10 ms of a product, 100 of a sort."""
CHUNK: Final = 1 << 20
"""Instructions of the grid items that are taken at once."""
POLL: Final = 1 << 16
"""Instructions between two polls: some 20 us."""
_SLOW: Final = ("div", "idiv", "imod", "floordiv", "mod", "sqrt")
_WEIGHTS: Final = {"load": 4, **dict.fromkeys(_SLOW, 16), **dict.fromkeys(MATH1 | MATH2, 64)}


class Pace:
    """One kernel's loops, with their weights."""

    def __init__(self, kernel: Kernel) -> None:
        self._known: dict[int, int] = {}
        self._item = 0 if kernel.block else max(1, self._of(kernel.body.body))
        self.long = self._item * kernel.grid >= LONG
        """Whether the kernel can be stopped."""

    @property
    def code(self) -> CpuCode:
        """A Binary's vendor data for a kernel that can be stopped."""
        return CpuCode(max(1, CHUNK // self._item), True) if self.long else CpuCode()

    def strip(self, loop: Loop) -> int:
        """Iterations of a serial loop between two polls; 0: none in this one."""
        each = self._of(loop.body) if self.long else 0
        if each * loop.extent < POLL:
            return 0
        return max(1, POLL // each)

    def _of(self, body: Sequence[Stmt]) -> int:
        """Instructions of statements; shared expressions are counted once."""
        total = 0
        for statement in body:
            if id(statement) not in self._known:
                self._known[id(statement)] = self._count(statement)
            total += self._known[id(statement)]
        return total

    def _count(self, statement: Stmt) -> int:
        if isinstance(statement, Store):
            return 1 + _expression(statement.value)
        if not isinstance(statement, Loop | If):
            return 1
        once = self._of(statement.body)
        if isinstance(statement, Loop) and statement.kind != "vector":
            return once * statement.extent
        return once


def _expression(root: Expr) -> int:
    seen: set[Expr] = set()
    total = 0
    for expr in postorder(root, seen.__contains__):
        seen.add(expr)
        total += _WEIGHTS.get(expr.op, 1)
    return total
