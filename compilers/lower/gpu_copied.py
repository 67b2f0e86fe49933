"""Operands of matrix units that are copied to shared memory while lanes multiply others.

A tile lies in columns of 16 bytes: column c, row r is at c * pitch + r * 16 bytes. Where k is
contiguous in memory, a row is a line of the tile (a row of A, a column of B) and a column is 16
bytes along k. Else (`across`) a row is k and a column is 16 bytes of neighbouring lines. Padding
after each column keeps 8 lanes that copy neighbouring columns in different banks; 8 rows of a
column are 128 bytes, so that lanes read them without conflicts.
"""

from __future__ import annotations

from compilers import expr as ex
from compilers import index as ix
from compilers.index import Index, Var
from compilers.ir import COPIED_BYTES, Copy, Expr, If, Load, Loop, Ref, Stmt, TileOperand
from compilers.lower.contraction import Contraction
from compilers.lower.gpu_tiles import Placement, along_depth, extent
from compilers.render.facts import FactTable, unit_of

ROWS = 8
"""Of a matrix that lanes gather, or that a matrix unit reads, at once."""
BANKS_BYTES = 128
"""What all banks of shared memory deliver at once."""


def copied(found: Contraction, operand: Expr, *, of_rows: bool, across: bool) -> bool:
    """Whether the operand is plain memory in whole pieces of 16 bytes; with lines as neighbours
    only if that is asked for."""
    if operand.op != "load":
        return False
    read: Load = operand.arg
    axes = found.m if of_rows else found.n
    deep = along_depth(operand, found.k[-1], axes[-1])
    near = found.k[-1] if deep else axes[-1]
    count = COPIED_BYTES // operand.dtype.itemsize
    if read.valid or read.ref.space != "global" or not (deep or across):
        return False
    rest = read.index - ix.var(near)
    alone = near not in FactTable().of_index(rest)
    return alone and near.extent % count == 0 and unit_of(rest) % count == 0


class Tiled:
    """A factor's tiles in shared memory, one for each stage."""

    def __init__(
        self, place: Placement, value: Expr, name: str, stages: int, *, of_rows: bool
    ) -> None:
        self.place, self.value, self.of_rows, self.stages = place, value, of_rows, stages
        tile = place.tile
        lines = tile.rows if of_rows else tile.columns
        axes = place.found.m if of_rows else place.found.n
        self.across = not along_depth(value, place.found.k[-1], axes[-1])
        self.piece = COPIED_BYTES // value.dtype.itemsize
        """Elements that are copied at once."""
        near, far = (lines, tile.depth) if self.across else (tile.depth, lines)
        self.columns, self.tasks = near // self.piece, near // self.piece * far
        pad = COPIED_BYTES * max(1, ROWS // self.columns)
        self.pitch = far * self.piece + pad // value.dtype.itemsize
        self.span = self.columns * self.pitch
        """Elements of a stage."""
        self.shared = Ref(name, value.dtype, self.span * stages, "shared")
        self.whole = extent(place.found.k) % tile.depth == 0

    def at(self, stage: Index, line: Index, k: Index) -> Index:
        """Where a line's 16 bytes along k begin, or those of 8 bytes and more along lines."""
        near, far = (line, k) if self.across else (k, line)
        return stage * self.span + near // self.piece * self.pitch + far * self.piece

    def operand(self, stage: Index, line: int | Index, k: int | Index) -> TileOperand:
        """What a matrix unit reads from there on."""
        zero = ix.const(0)
        return TileOperand(
            self.shared, self.at(stage, zero + line, zero + k), self.pitch, self.across
        )

    def copy(self, step: Index, stage: Index) -> tuple[Stmt, ...]:
        """A step's tile to a stage: zeros where there is no memory."""
        block = self.place.tile.block
        round_ = Var("r", -(-self.tasks // block))
        task = ix.var(round_) * block + ix.var(self.place.lane)
        near, far = task % self.columns * self.piece, task // self.columns
        line, k = (near, far) if self.across else (far, near)
        body: tuple[Stmt, ...] = (self._copy(line, k, step, stage),)
        short = ex.bounded([(task, 0, self.tasks)])
        return (Loop(round_, "unroll", (If(short, body),) if short else body),)

    def _copy(self, line: Index, k: Index, step: Index, stage: Index) -> Copy:
        place = self.place
        in_x, x_exists = place.rows(line) if self.of_rows else place.columns(line)
        in_k, k_exists = place.depth(k, step)
        guard = (*x_exists, *(() if self.whole else k_exists))
        read = ex.Rewriter({**place.env, **in_x, **in_k}, guard=guard).expr(self.value).arg
        return Copy(self.shared, self.at(stage, line, k), read.ref, read.index, guard)


def gathered(
    tiled: Tiled, stage: Index, line: Index, k: Index, lane: Index, *, down_first: bool
) -> Index:
    """The row that a lane of a wave names for `Gather`: of matrix lane // 8, which are 8 lines and
    16 bytes along k apart, next ones down the lines or along k."""
    row, matrix = lane % ROWS, lane // ROWS
    low, high = matrix % 2, matrix // 2
    down, along = (low, high) if down_first else (high, low)
    down = down * ROWS
    if tiled.across:
        return tiled.at(stage, line + down, k + along * ROWS + row)
    return tiled.at(stage, line + down + row, k + along * tiled.piece)
