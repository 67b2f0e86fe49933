"""Products of a few rows with a large matrix, which is read once: what a GPU's memory bounds.

    out[b, m, n] = epilogue(sum over k of few[b, m, k] * many[b, k, n])      m up to 8 points

`many` is an expression over a matrix that is contiguous along n ("across": x @ w) or along k
("along": x @ w.T), perhaps of integers with scales. How lanes share it is chosen by counting: a
lane has `LOADS` loads of 16 bytes in flight, neighbouring lanes read a cache line, and every place
for a workgroup has one. `compilers/lower/gpu_vector.py` makes the loop nest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Protocol

from compilers import expr as ex
from compilers.gpu_target import GpuTarget
from compilers.index import Div, Index, Mod, Var
from compilers.ir import Expr, Load
from compilers.plan.algorithm import Algorithm
from drivers.base.errors import Unsupported

MAX_ROWS = 8
"""More rows than these go to the matrix units."""
MIN_COLUMNS, MIN_ELEMENTS = 16, 1 << 12
"""Of the matrix: smaller ones are a reduction like any other."""
LOADS = 8
"""Loads of the matrix that a lane has in flight."""
SUMS = 64
"""Products of a load of the matrix: a lane keeps as many sums, or as many elements of the rows."""
MAX_BLOCK = 512
"""Lanes of a workgroup: with more, no other wave computes while they wait at the barrier."""
MIN_BLOCK = 256
MIN_PART = 128
"""Least depth of a part: the traffic of its partial sums is small in comparison."""
SAFETY = 2
"""Target for bytes in flight, as a multiple of bandwidth times latency."""
PLACE_SHARE = 0.6
"""Of the first-level cache's lines: those that a place is counted to have in flight, at most."""
ROW_PLACES = 0.5
"""Of the places that workgroups can be on: those that have one, for what each row computes."""


class Machine(Protocol):
    """The inputs of the choice."""

    @property
    def vector_bytes(self) -> int: ...
    def width(self, itemsize: int) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def wave_lanes(self) -> int: ...
    @property
    def gpu(self) -> GpuTarget | None: ...


@dataclass(frozen=True, slots=True)
class VectorProduct:
    """The operands and their axes; `along`: the matrix is contiguous along `depth`."""

    few: Expr
    many: Expr
    batch: tuple[Var, ...]
    rows: tuple[Var, ...]
    column: Var
    depth: Var
    itemsize: int
    """Bytes of the matrix's elements as they are stored."""
    along: bool

    @property
    def row_count(self) -> int:
        """Points of the axes that only `few` has."""
        return points(self.rows)


def points(axes: Sequence[Var]) -> int:
    """Points of some axes."""
    return prod(axis.extent for axis in axes)


def vector_product(algorithm: Algorithm) -> VectorProduct | None:
    """The algorithm seen as such a product, or None where it is none."""
    if len(algorithm.reductions) != 1 or algorithm.inner:
        return None
    (reduction,) = algorithm.reductions
    if reduction.kind != "add" or reduction.value.op != "mul" or len(reduction.axes) != 1:
        return None
    (depth,) = reduction.axes
    few, many = map(_Merged({}).expr, reduction.value.src)
    in_few, in_many = ex.variables(few), ex.variables(many)
    if depth not in in_few or depth not in in_many:
        return None
    rows, columns = (
        tuple(axis for axis in algorithm.outer if axis in here and axis not in there)
        for here, there in ((in_few, in_many), (in_many, in_few))
    )
    if points(rows) > points(columns):
        few, many, rows, columns = many, few, columns, rows
    batch = tuple(axis for axis in algorithm.outer if axis not in (*rows, *columns))
    if len(columns) != 1 or points(rows) > MAX_ROWS:
        return None
    (column,) = columns
    if column.extent < MIN_COLUMNS or column.extent * depth.extent < MIN_ELEMENTS:
        return None
    matrix = _matrix(many, column, depth)
    if matrix is None:
        return None
    itemsize, along = matrix.ref.dtype.itemsize, matrix.index.terms.get(depth) == 1
    return VectorProduct(few, many, batch, rows, column, depth, itemsize, along)


class _Merged(ex.Rewriter):
    """Copies expressions with i // d * d + i % d as i: the remains of a reshape and its inverse."""

    def index(self, index: Index) -> Index:
        made = super().index(index)
        for atom, k in made.terms.items():
            if isinstance(atom, Div):
                rest = Mod(atom.index, atom.divisor, 0, atom.divisor - 1)
                step = made.terms.get(rest, 0)
                if step and step * atom.divisor == k:
                    return self.index(made - Index({atom: k, rest: step}, 0) + atom.index * step)
        return made


def _matrix(many: Expr, column: Var, depth: Var) -> Load | None:
    """The largest read of `many`, where it is contiguous along one axis and reads no element
    twice; else None."""
    largest = max(ex.loads(many), key=lambda read: read.ref.size, default=None)
    if largest is None or largest.ref.size < column.extent * depth.extent:
        return None
    strides = {largest.index.terms.get(axis, 0) for axis in (column, depth)}
    other = max(strides)
    return largest if 1 in strides and other >= min(column.extent, depth.extent) else None


@dataclass(frozen=True, slots=True)
class Sizes:
    """Inputs of the choice of shares: points of the axes, bytes of a stored element."""

    batch: int
    rows: int
    columns: int
    depth: int
    itemsize: int
    along: bool


def sizes(found: VectorProduct) -> Sizes:
    """The numbers of a product."""
    return Sizes(
        points(found.batch), found.row_count, found.column.extent, found.depth.extent,
        found.itemsize, found.along,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Share:
    """How the lanes of a workgroup share columns and depth. Elements, unless noted."""

    block: int
    """Lanes of a workgroup."""
    width: int
    """Neighbours that a lane loads at once."""
    near: int
    """Lanes beside each other along the contiguous axis: of columns ("across") or of depth."""
    columns: int
    """Columns of a lane: `width` ("across"), or rows of the stored matrix ("along")."""
    turns: int
    """Loads of each column along depth in flight: single rows ("across"), or of `width`."""
    span: int
    """Depth that the workgroup sums in one iteration of the loop."""
    group: int
    """Columns of a workgroup."""


def _gpu(machine: Machine) -> GpuTarget:
    if machine.gpu is None:
        raise Unsupported("a CPU has no lanes to share a product", hint="Lower it as a reduction")
    return machine.gpu


def needed_bytes(machine: Machine) -> float:
    """Bytes in flight in the whole GPU that its memory needs."""
    return _gpu(machine).unit_bytes * machine.threads


def places(machine: Machine) -> int:
    """How many workgroups can be on compute units of their own."""
    return max(machine.threads // _gpu(machine).units_per_group, 1)


def share(size: Sizes, machine: Machine) -> Share | None:
    """The lanes' shares, or None where the matrix is too narrow for them."""
    width = machine.width(size.itemsize)
    width = min(width, _power(SUMS // size.rows))
    return _along(size, width, machine) if size.along else _across(size, width, machine)


def _across(size: Sizes, width: int, machine: Machine) -> Share | None:
    """Neighbours read a line of the cache of one row, more where there are workgroups enough; the
    other lanes read other rows."""
    near = max(_gpu(machine).line_bytes // (width * size.itemsize), 1)
    if near * width > size.columns:
        return None
    for _ in range(machine.wave_lanes.bit_length()):
        wider = 2 * near * width
        enough = size.batch * (size.columns // wider) >= 2 * places(machine)
        near *= 2 if enough and 2 * near <= machine.wave_lanes else 1
    group = near * width
    block = _block(size, -(-size.columns // group), near * -(-size.depth // LOADS), machine)
    block = max(block, near)
    return Share(block, width, near, width, LOADS, block // near * LOADS, group)


def _along(size: Sizes, width: int, machine: Machine) -> Share | None:
    """Neighbours read one row of the stored matrix; a wave for each row, or several where there
    are few rows, or less where they are short."""
    wave = machine.wave_lanes
    columns = min(_power(2 * size.rows - 1) * 2, LOADS, _power(size.columns))
    near = min(wave, _power(-(-size.depth // width) * 2 - 1))
    block = MIN_BLOCK
    for _ in range(MIN_BLOCK.bit_length()):
        groups = size.batch * (size.columns // (block // near * columns))
        if groups < places(machine) and near < block and 2 * near * width <= size.depth:
            near *= 2
    for _ in range(MIN_BLOCK.bit_length()):
        few = size.columns < block // near * columns
        block //= 2 if few and block > max(near, wave) else 1
    group = block // near * columns
    if group > size.columns:
        return None
    turns = max(min(LOADS // columns, size.depth // (near * width)), 1)
    return Share(block, width, near, columns, turns, near * width * turns, group)


def _block(size: Sizes, groups: int, most: int, machine: Machine) -> int:
    """Lanes of a workgroup: the fewest that have in flight what memory needs, up to `most` that
    have work."""
    lane = size.batch * groups * LOADS * machine.vector_bytes
    most = max(min(MAX_BLOCK, _power(most)), machine.wave_lanes)
    for block in (MIN_BLOCK, MAX_BLOCK):
        if lane * block >= SAFETY * needed_bytes(machine):
            return min(block, most)
    return most


def _power(value: int) -> int:
    """The largest power of two that is not more."""
    return 1 << (max(value, 1).bit_length() - 1)


def wanted_places(rows: int, machine: Machine) -> int:
    """Places with a workgroup that are enough for the bandwidth: each has no more in flight than
    its first-level cache has lines, and some are needed for what is computed."""
    everywhere, gpu = places(machine), _gpu(machine)
    if gpu.unit_cache_bytes is None:
        return everywhere
    lines = PLACE_SHARE * gpu.unit_cache_bytes * gpu.units_per_group
    return min(ceil(max(needed_bytes(machine) / lines, ROW_PLACES * rows * everywhere)), everywhere)


def parts(size: Sizes, machine: Machine) -> int:
    """Into how many sums along depth a product is cut, so that enough places have a workgroup: the
    least divisor of the depth that gives them one, else the largest there is."""
    found = share(size, machine)
    if found is None:
        return 1
    groups = size.batch * -(-size.columns // found.group)
    wanted, most = -(-wanted_places(size.rows, machine) // groups), size.depth // MIN_PART
    divisors = [n for n in range(1, most + 1) if size.depth % n == 0] if wanted > 1 else [1]
    return next((n for n in divisors if n >= wanted), max(divisors, default=1))
