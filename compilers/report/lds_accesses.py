"""Shared memory accesses of a workgroup's lanes in one iteration of a kernel's loop, from its IR.

Addresses are evaluated for every lane. A renderer prints one instruction for each of these
accesses, or one for two of them, which takes the passes of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compilers import expr as ex
from compilers.amd.targets import ALIGN_BYTES
from compilers.index import Div, Dyn, Index, Mod, Var
from compilers.ir import Barrier, If, Kernel, Loop, Matrix, Ref, Stmt, Store, Valid
from compilers.render.common import memory_dtype
from compilers.report.lds_banks import passes

Numbers = npt.NDArray[np.int64]
OFF = -1


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """One access by all lanes of a workgroup; `addresses`: bytes, OFF for inactive lanes."""

    addresses: Numbers
    nbytes: int
    write: bool

    def passes(self, wave_lanes: int) -> int:
        """Passes of all waves, one after the other."""
        waves = self.addresses.reshape(-1, wave_lanes)
        return sum(passes(wave, self.nbytes, write=self.write) for wave in waves)


def loop_accesses(kernel: Kernel) -> list[Access]:
    """Accesses of one iteration of the multiplying loop, in the first workgroup; [] for none."""
    loop = next(_multiplying(kernel.body), None)
    if loop is None:
        return []
    bases, end = {}, 0
    for ref in kernel.locals:
        if ref.space == "shared":
            bases[ref] = end
            end += -(-ref.size * memory_dtype(ref).itemsize // ALIGN_BYTES) * ALIGN_BYTES
    (lanes,) = (inner for inner in kernel.body.body if isinstance(inner, Loop))
    walk = _Walk(lanes.var, bases)
    return list(walk.statements(loop.body))


def _multiplying(stmt: Stmt) -> Iterator[Loop]:
    """The serial loops with matrix steps in them."""
    if isinstance(stmt, Loop | If):
        if isinstance(stmt, Loop) and stmt.kind == "serial" and any(map(_matrix, stmt.body)):
            yield stmt
        for inner in stmt.body:
            yield from _multiplying(inner)


def _matrix(stmt: Stmt) -> bool:
    if isinstance(stmt, Loop | If):
        return any(map(_matrix, stmt.body))
    return isinstance(stmt, Matrix)


class _Walk:
    """Evaluates statements with numbers for the variables: those of lanes are arrays."""

    def __init__(self, lane: Var, bases: Mapping[Ref, int]) -> None:
        self.lane, self.block, self.bases = lane, lane.extent, bases
        self.unrolled: dict[Var, int] = {}
        self.on = np.ones(self.block, np.bool_)
        self.read: set[tuple[int, bytes]] = set()

    def statements(self, body: tuple[Stmt, ...]) -> Iterator[Access]:
        for stmt in body:
            if isinstance(stmt, Barrier):
                self.read.clear()
            elif isinstance(stmt, Store):
                yield from self._store(stmt, 1)
            elif isinstance(stmt, Matrix):
                yield from self._matrix(stmt)
            elif isinstance(stmt, If):
                before = self.on
                self.on = before & self._holds(stmt.valid)
                yield from self.statements(stmt.body)
                self.on = before
            elif not isinstance(stmt, Loop):
                raise TypeError(f"no accesses of {type(stmt).__name__} are counted")
            elif stmt.kind == "vector":
                self.unrolled[stmt.var] = 0
                for inner in stmt.body:
                    if isinstance(inner, Store):
                        yield from self._store(inner, stmt.extent)
            else:
                for i in range(stmt.extent):
                    self.unrolled[stmt.var] = i
                    yield from self.statements(stmt.body)

    def _store(self, store: Store, width: int) -> Iterator[Access]:
        for read in ex.loads(store.value):
            yield from self._access(read.ref, read.index, width, write=False)
        yield from self._access(store.ref, store.index, width, write=True)

    def _matrix(self, step: Matrix) -> Iterator[Access]:
        form = step.form
        yield from self._access(step.a, step.a_index, form.a.count, write=False)
        yield from self._access(step.b, step.b_index, form.b.count, write=False)

    def _access(self, ref: Ref, index: Index, width: int, *, write: bool) -> Iterator[Access]:
        if ref.space != "shared":
            return
        size = memory_dtype(ref).itemsize
        at = np.broadcast_to(self._number(index) * size + self.bases[ref], (self.block,))
        key = (width, np.where(self.on, at, OFF).tobytes())
        if not write and key in self.read:
            return  # it is in a register already
        self.read.add(key)
        for first in range(0, width * size, ALIGN_BYTES):
            nbytes = min(width * size - first, ALIGN_BYTES)
            yield Access(np.where(self.on, at + first, OFF), nbytes, write)

    def _holds(self, valid: Valid) -> npt.NDArray[np.bool_]:
        holds = np.ones(self.block, np.bool_)
        for index, low, high in valid:
            at = self._number(index)
            holds &= (low <= at) & (at < high)
        return holds

    def _number(self, index: Index) -> Numbers:
        """An index in every lane. Loops around, and the grid, are at their start."""
        total = np.full(self.block, index.const, np.int64)
        for atom, k in index.terms.items():
            if isinstance(atom, Div):
                total += k * (self._number(atom.index) // atom.divisor)
            elif isinstance(atom, Mod):
                total += k * (self._number(atom.index) % atom.divisor)
            elif isinstance(atom, Dyn):
                raise TypeError("an index that is read from memory has no number here")
            elif atom in self.unrolled:
                total += k * self.unrolled[atom]
            elif atom is self.lane:
                total += k * np.arange(self.block)
        return total
