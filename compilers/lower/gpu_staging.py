"""How operands of a matrix unit get to shared memory: through registers, without bank conflicts.

A staged tile has one line for each row of A or column of B, with k contiguous in it. Two lines are
side by side and 16 bytes of padding follow:

    line 0 | line 1 | pad | line 2 | line 3 | pad | ...

for 32 elements along k; further elements of a step follow, panel by panel. So 8 lanes that read 16
bytes of 8 neighbouring lines access all 32 banks once, and so do 8 lanes that write two whole
lines. docs/design-compiler.md has more.

What is contiguous along k in memory is copied 16 bytes at a time. Anything else is transposed on
the way: a lane loads 8 neighbours of two rows of k and writes 8 pairs. The choice of an element's
line (`Lines`) keeps neighbouring lanes' pairs in different banks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compilers import expr as ex
from compilers import index as ix
from compilers.index import Index, Var
from compilers.ir import Expr, If, Loop, Ref, Stmt, Store
from compilers.lower.gpu_tiles import Placement, along_depth

PANEL = 32
"""Elements along k of a line: 64 bytes of a row in memory."""
WIDE = 8
"""Elements of 16 bits that a lane loads at once."""
PAIR = 2
"""Lines side by side, and elements along k that a lane stores at once when it transposes."""
PAD = 8
"""Elements after each pair of lines."""
PASS_LANES = 32
"""Lanes with stores of 4 bytes that one pass of shared memory serves."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Which line of a staged tile a row of A, or a column of B, is.

    A wave's rows alternate between its `fragments` of `size` lines: line i of fragment j is row
    i * fragments + j. So a lane that holds column i of each fragment holds neighbours of the
    result. And 8 neighbours that a lane transposes are 8 / fragments lines apart from the next 8.
    """

    size: int
    fragments: int

    def line(self, row: Index) -> Index:
        """Where a row is."""
        wave = self.size * self.fragments
        inside = row % wave
        turn = (inside % self.fragments) * self.size + inside // self.fragments
        return (row // wave) * wave + turn

    def row(self, line: Index) -> Index:
        """What is on a line."""
        wave = self.size * self.fragments
        inside = line % wave
        turn = (inside % self.size) * self.fragments + inside // self.size
        return (line // wave) * wave + turn


class Operand:
    """A factor's tile: the registers it passes through, and where it lies in shared memory."""

    def __init__(
        self, place: Placement, value: Expr, name: str, lines: Lines, *, of_rows: bool
    ) -> None:
        tile = place.tile
        self.place, self.value, self.lines, self.of_rows = place, value, lines, of_rows
        self.across = tile.rows if of_rows else tile.columns
        axes = place.found.m if of_rows else place.found.n
        self.deep = along_depth(value, place.found.k[-1], axes[-1])
        self.span = (PAIR * PANEL + PAD) * (self.across // PAIR)
        """Elements from panel to panel."""
        panels = tile.depth // PANEL
        self.shared = Ref(name, value.dtype, self.span * panels, "shared")
        self.panel_tasks = self.across * PANEL // (WIDE if self.deep else PAIR * WIDE)
        self.tasks = self.panel_tasks * panels
        self.rounds = -(-self.tasks // tile.block)
        held = self.rounds * (WIDE if self.deep else PAIR * WIDE)
        self.held = Ref(f"{name}_next", value.dtype, held, "register")

    def at(self, line: Index, k: Index, panel: Index) -> Index:
        """Where an element of a panel lies in shared memory."""
        inside = (line // PAIR) * (PAIR * PANEL + PAD) + (line % PAIR) * PANEL + k
        return panel * self.span + inside

    def load(self, step: Index) -> tuple[Stmt, ...]:
        """From memory to registers. What does not exist is zero."""
        round_, pair, lane = self._round(), Var("j", PAIR), Var("v", WIDE)
        task, panel = self._task(round_)
        first = panel * PANEL
        if self.deep:
            line, k = self._deep(task % self.panel_tasks)
            k = first + k + ix.var(lane)
            put = self._fetch(self.lines.row(line), k, step, ix.var(round_), lane)
            return self._each(round_, task, [Loop(lane, "vector", (put,))])
        row, k = self._across(task % self.panel_tasks)
        slot = ix.var(round_) * PAIR + ix.var(pair)
        put = self._fetch(row + ix.var(lane), first + k + ix.var(pair), step, slot, lane)
        return self._each(round_, task, [Loop(pair, "unroll", (Loop(lane, "vector", (put,)),))])

    def store(self) -> tuple[Stmt, ...]:
        """From registers to shared memory."""
        round_, pair, lane = self._round(), Var("j", PAIR), Var("v", WIDE)
        task, panel = self._task(round_)
        if self.deep:
            line, k = self._deep(task % self.panel_tasks)
            slot, to = ix.var(round_) * WIDE + ix.var(lane), self.at(line, k + ix.var(lane), panel)
            put = Store(self.shared, to, ex.load(self.held, slot))
            return self._each(round_, task, [Loop(lane, "vector", (put,))])
        row, k = self._across(task % self.panel_tasks)
        slot = (ix.var(round_) * PAIR + ix.var(pair)) * WIDE + ix.var(lane)
        to = self.at(self.lines.line(row + ix.var(lane)), k + ix.var(pair), panel)
        put = Store(self.shared, to, ex.load(self.held, slot))
        return self._each(round_, task, [Loop(lane, "unroll", (Loop(pair, "vector", (put,)),))])

    def _round(self) -> Var:
        return Var("r", self.rounds)

    def _task(self, round_: Var) -> tuple[Index, Index]:
        """A lane's task in a round, counted through all panels, and its panel."""
        task = ix.var(round_) * self.place.tile.block + ix.var(self.place.lane)
        return task, task // self.panel_tasks

    def _each(self, round_: Var, task: Index, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        short = ex.bounded([(task, 0, self.tasks)])
        inner = (If(short, tuple(body)),) if short else tuple(body)
        return (Loop(round_, "unroll", inner),)

    def _deep(self, task: Index) -> tuple[Index, Index]:
        """The line and first k of a panel's task: neighbouring lanes fill a line, then the next."""
        per_line = PANEL // WIDE
        return task // per_line, (task % per_line) * WIDE

    def _across(self, task: Index) -> tuple[Index, Index]:
        """The first row and k of a panel's task: neighbouring lanes read along the rows."""
        near = min(PAIR * self.lines.fragments, self.across // WIDE)
        far = PASS_LANES // near
        pass_, wide = task // PASS_LANES, self.across // WIDE // near
        row = (pass_ % wide) * near + task % near
        k = (pass_ // wide) * far + (task // near) % far
        return row * WIDE, k * PAIR

    def _fetch(self, row: Index, k: Index, step: Index, slot: Index, lane: Var) -> Store:
        """An element to lane `lane` of the register vector number `slot`."""
        place = self.place
        in_x, x_exists = place.rows(row) if self.of_rows else place.columns(row)
        in_k, k_exists = place.depth(k, step)
        guard = (*x_exists, *k_exists)
        value = ex.Rewriter({**place.env, **in_x, **in_k}, guard=guard).expr(self.value)
        value = ex.guarded(value, guard, ex.const(0, self.value.dtype))
        return Store(self.held, slot * WIDE + ix.var(lane), value)
