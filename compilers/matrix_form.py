"""Matrix instructions for lowering: shapes, and which elements each lane of a wave holds.

D += A B with A of `rows` x `depth`, B of `depth` x `columns`. Which element of a matrix element `i`
of lane `l` is, is written in digits of both numbers:

    number // divisor % count * stride

A family of targets declares its forms and how to print them; lowering takes them from its target
and names no instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from compilers import dtype as dt
from compilers import index as ix
from compilers.dtype import DType
from compilers.index import Index


@dataclass(frozen=True, slots=True)
class Digit:
    """What one digit of a number adds to a coordinate."""

    of: str
    """Whose number: "lane" (within its wave) or "element" (of the lane)."""
    divisor: int
    count: int
    stride: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """The elements of one matrix in the lanes of a wave.

    `line` is a row of A and of the sum, a column of B; `along` is k of A and B, a column of the
    sum. Several lanes may hold the same element.
    """

    count: int
    """Elements of a lane."""
    line: tuple[Digit, ...]
    along: tuple[Digit, ...]

    def place(self, lane: Index, element: Index) -> tuple[Index, Index]:
        """(line, along) of an element of a lane."""
        numbers = {"lane": lane, "element": element}
        return _coordinate(self.line, numbers), _coordinate(self.along, numbers)

    @property
    def run(self) -> int:
        """Consecutive elements of a lane that are neighbours along the line."""
        steps = [d for d in (*self.line, *self.along) if d.of == "element" and d.divisor == 1]
        first = [d for d in self.along if d in steps and d.stride == 1]
        return first[0].count if len(steps) == len(first) == 1 else 1

    @property
    def whole(self) -> bool:
        """Whether a lane's elements are neighbours: one load where lines are contiguous."""
        return self.run == self.count


def _coordinate(digits: Sequence[Digit], numbers: dict[str, Index]) -> Index:
    total = ix.const(0)
    for digit in digits:
        total += numbers[digit.of] // digit.divisor % digit.count * digit.stride
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixForm:
    """One step of a wave's matrix unit: an instruction, or some of them for one load."""

    name: str
    dtype: DType
    """Of the elements of A and B."""
    rows: int
    columns: int
    depth: int
    lanes: int
    """Of the wave."""
    a: Fragment
    b: Fragment
    sums: Fragment
    sums_dtype: DType = dt.float32
    gathered: bool = False
    """Whether registers of A are 8 x 16 bytes of rows 0 and 8 at k = 0, then of both 16 bytes
    further, and those of B of both places along k: what `Gather` brings."""

    @property
    def copies(self) -> int:
        """How many lanes hold each element of A."""
        return self.lanes * self.a.count // prod((self.rows, self.depth))


@dataclass(frozen=True, slots=True, kw_only=True)
class TileForm:
    """One step of the matrix units of some waves, with both factors in shared memory."""

    name: str
    dtype: DType
    """Of the elements of A and B."""
    rows: int
    columns: int
    depth: int
    lanes: int
    """Of all waves together."""
    sums: Fragment
    sums_dtype: DType = dt.float32
    across: bool = False
    """Whether neighbours in shared memory may be lines, not only k."""
