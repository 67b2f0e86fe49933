"""The reduction before each lane: running, of one value per lane, over a team of lanes."""

from __future__ import annotations

from compilers import expr as ex
from compilers import index as ix
from compilers.dtype import DType
from compilers.index import Index, Var
from compilers.ir import Barrier, Expr, Ref, Stmt, Store
from compilers.lower.gpu import masks

ZERO = ix.const(0)


class Prefix:
    """Its registers: `total` and `carry`, the reduction before the first lane, are inputs; `before`
    is computed, and `carry` becomes the reduction before the next value of the first lane.

    A team is a part of a wave, a wave, or a workgroup of several. Reductions commute.
    """

    def __init__(self, kind: str, dtype: DType, lane: Var, team: int, wave: int) -> None:
        self.kind, self.dtype, self.lane = kind, dtype, lane
        self.team, self.wave, self.waves = team, wave, max(team // wave, 1)
        self.identity = ex.const(ex.identity(kind, dtype), dtype)
        self.total, self.carry, self.before, self._got, self._base = (
            Ref(name, dtype, 1, "register") for name in ("total", "carry", "before", "got", "base")
        )
        self._meet = Ref("meet", dtype, 2 * self.waves, "shared")

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The locals of a kernel that uses it."""
        own = (self.total, self.carry, self.before, self._got, self._base)
        return (*own, self._meet) if self.waves > 1 else own

    def join(self, a: Expr, b: Expr) -> Expr:
        """a, which comes before b, with b."""
        return Expr(ex.COMBINE[self.kind], self.dtype, (a, b))

    def stmts(self, number: Index) -> tuple[Stmt, ...]:
        """`number` counts the iterations of a loop, where the two halves of shared memory alternate
        so that one barrier per iteration is enough."""
        return (*self._lanes(), *(self._waves(number) if self.waves > 1 else self._onto_carry()))

    def _lanes(self) -> tuple[Stmt, ...]:
        """`before` reduces earlier lanes of the team and wave, `total` all of them.

        Lanes that differ in one bit swap totals; the one with the bit set comes after the other.
        """
        got, before, total = (ex.load(ref, ZERO) for ref in (self._got, self.before, self.total))
        result: list[Stmt] = [Store(self.before, ZERO, self.identity)]
        for mask in masks(1, min(self.team, self.wave)):
            late = ((ix.var(self.lane) // mask % 2, 1, 2),)
            earlier = ex.guarded(got, late, self.identity)
            result += [
                Store(self._got, ZERO, Expr("swap", self.dtype, (total,), mask)),
                Store(self.before, ZERO, self.join(earlier, before)),
                Store(self.total, ZERO, self.join(total, got)),
            ]
        return tuple(result)

    def _waves(self, number: Index) -> tuple[Stmt, ...]:
        """Combine totals of waves in shared memory."""
        at, half = ix.var(self.lane), number % 2 * self.waves
        first = ex.bounded([(at % self.wave, 0, 1)])
        carry, base = ex.load(self.carry, ZERO), ex.load(self._base, ZERO)
        total = ex.load(self.total, ZERO)
        result: list[Stmt] = [Store(self._meet, half + at // self.wave, total, first), Barrier()]
        for wave in range(self.waves):
            mine = ((at // self.wave, wave, wave + 1),)
            result += [
                Store(self._base, ZERO, ex.guarded(carry, mine, base) if wave else carry),
                Store(self.carry, ZERO, self.join(carry, ex.load(self._meet, half + wave))),
            ]
        before = self.join(base, ex.load(self.before, ZERO))
        return (*result, Store(self.before, ZERO, before))

    def _onto_carry(self) -> tuple[Stmt, ...]:
        carry, before = ex.load(self.carry, ZERO), ex.load(self.before, ZERO)
        return (
            Store(self.before, ZERO, self.join(carry, before)),
            Store(self.carry, ZERO, self.join(carry, ex.load(self.total, ZERO))),
        )
