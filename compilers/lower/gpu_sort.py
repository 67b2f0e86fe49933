"""Sorting on a GPU: short rows in shared memory, by a workgroup each, longer ones digit by digit.

A key is mapped to an unsigned integer of the same order. For long rows it is packed with its place
into one word, and for each digit of eight bits, lowest first:

    digit_counts    how many elements of each tile have which digit
    scan            of the counts, digit by digit and tile by tile: where each of them begins
    digit_scatter   each tile, sorted by the digit in shared memory, is stored there in runs

The work is the same for every element: linear in the row's length, for each digit of its key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from compilers import dtype as dt
from compilers import expr as ex
from compilers import graph
from compilers import index as ix
from compilers.graph import Node
from compilers.index import Dyn, Index, Var
from compilers.ir import Barrier, Expr, Kernel, Loop, Ref, Stmt, Store, Valid
from compilers.lower.choose import Target
from compilers.lower.gpu import BLOCK
from compilers.lower.gpu_radix import DIGIT_BITS, ITEMS, Tile
from compilers.lower.special import params
from compilers.math.build import UNSIGNED, cast, op
from compilers.plan.algorithm import Cut, Expander

RANKED = 64
"""Rows up to here are sorted by comparing each element with all of its row."""
TILE = BLOCK * ITEMS
INFINITY = {dt.float16: 0x7C00, dt.bfloat16: 0x7F80, dt.float32: 0x7F80_0000,
            dt.float64: 0x7FF0_0000_0000_0000}  # fmt: skip
WORD_BITS, PLACE_BITS = 64, 32
RefOf = Callable[[Node], Ref | None]


def split_sorts(nodes: Sequence[Node]) -> None:
    """Rewrite, in place, the argsorts among `nodes` of more than a few elements a row."""
    for node in nodes:
        if node.op == "argsort" and 0 not in node.shape:
            axis, descending = node.arg
            if node.shape[axis] > RANKED:
                made = _sorted(node.src[0], axis, descending)
                node.op, node.src, node.arg = made.op, made.src, made.arg


def _sorted(source: Node, axis: int, descending: bool) -> Node:
    """The argsort as nodes of this module, along the last axis, of a matrix."""
    order = (*(other for other in range(len(source.shape)) if other != axis), axis)
    moved = graph.permute(source, order)
    length = source.shape[axis]
    rows = prod(source.shape) // length
    matrix = graph.reshape(moved, (rows, length))
    keys = _keys(graph.contiguous(matrix) if moved is not source else matrix, descending)
    key_bits = 1 if source.dtype is dt.bool_ else keys.dtype.bits
    if length <= TILE:
        places = Node("row_sort", (keys,), (key_bits,), dt.int64, (rows, length))
    else:
        places = _by_digits(keys, key_bits)
    back = [order.index(other) for other in range(len(order))]
    return graph.permute(graph.reshape(places, moved.shape), back)


def _keys(x: Node, descending: bool) -> Node:
    """Unsigned integers in the order of x: NaN last, -0.0 equal to 0.0; backwards if descending."""
    if x.dtype is dt.bool_:
        u = graph.cast(x, dt.uint8)
        return _with("xor", u, 1) if descending else u
    word = UNSIGNED[x.dtype.itemsize]
    u, sign = graph.bitcast(x, word), 1 << (word.bits - 1)
    if x.dtype.kind == "i":
        u = _with("xor", u, sign)
    elif x.dtype.kind == "f":
        largest = _like(u, INFINITY[x.dtype])
        nan = graph.binary("lt", largest, _with("and", u, sign - 1))
        u = graph.where(graph.binary("eq", u, _like(u, sign)), _like(u, 0), u)
        negative = graph.binary("le", _like(u, sign), u)
        u = graph.where(negative, graph.unary("invert", u), _with("or", u, sign))
        u = graph.where(nan, _like(u, -1), u)
    return graph.unary("invert", u) if descending else u


def _like(x: Node, value: int) -> Node:
    return graph.const(value, x.dtype, x.shape)


def _with(name: str, x: Node, value: int) -> Node:
    return graph.binary(name, x, _like(x, value))


def _by_digits(keys: Node, key_bits: int) -> Node:
    """The places of sorted rows; a key that leaves no room for its place is sorted in two parts,
    the lower one first."""
    shape = rows, length = keys.shape
    place_bits, word = (length - 1).bit_length(), dt.uint32
    part = key_bits
    if key_bits + place_bits > word.bits:
        word, place_bits = dt.uint64, max(place_bits, PLACE_BITS)
        part = min(key_bits, (WORD_BITS - place_bits) // DIGIT_BITS * DIGIT_BITS)
    places = graph.broadcast(graph.iota(length), shape)
    row = graph.expand(graph.reshape(graph.iota(rows), (rows, 1)), shape)
    for low in range(0, key_bits, part):
        taken = min(part, key_bits - low)
        key = graph.gather(keys, (row, places)) if low else keys
        if taken < keys.dtype.bits:
            key = _with("shr", key, low)
            key = _with("and", key, (1 << taken) - 1)
        key = _with("shl", graph.cast(key, word), place_bits)
        packed = graph.binary("or", key, graph.cast(places, word))
        packed = graph.contiguous(packed) if low else packed
        for shift in range(0, taken, DIGIT_BITS):
            bits = min(DIGIT_BITS, taken - shift)
            last = shift + bits == taken
            packed = _pass(packed, place_bits + shift, bits, place_bits if last else 0)
        places = packed
    return places


def _pass(packed: Node, shift: int, bits: int, place_bits: int) -> Node:
    """One digit; the last time only the places are kept, as int64."""
    rows, length = packed.shape
    radix, tiles = 1 << bits, -(-length // TILE)
    kind = dt.int32 if length <= dt.limits(dt.int32)[1] else dt.int64
    counts = Node("digit_counts", (packed,), (shift, bits), kind, (rows, radix, tiles))
    ends = graph.scan("add", graph.reshape(counts, (rows, radix * tiles)), 1)
    dtype = dt.int64 if place_bits else packed.dtype
    return Node("digit_scatter", (packed, ends), (shift, bits, place_bits), dtype, (rows, length))


def lower_sort(node: Node, name: str, out: Ref, ref_of: RefOf, target: Target) -> Kernel:
    """The kernel of one of this module's nodes. Raises: Cut, of a reduction in its source."""
    return _LOWER[node.op](_Sort(node, out, ref_of, target.wave_lanes)).named(name)


class _Sort:
    """Tiles of the rows of a matrix, one for each workgroup."""

    def __init__(self, node: Node, out: Ref, ref_of: RefOf, wave: int) -> None:
        self.node, self.out, self.wave = node, out, wave
        source = node.src[0]
        self.rows, self.length = source.shape
        self.row, self.at = Var("row", self.rows), Var("i", self.length)
        expander = Expander(node, ref_of)
        self.value = expander.value(source, (ix.var(self.row), ix.var(self.at)))
        self.ends: Expr | None = None
        if len(node.src) > 1:
            self.end = Var("end", node.src[1].shape[1])
            self.ends = expander.value(node.src[1], (ix.var(self.row), ix.var(self.end)))
        if expander.reductions:
            raise Cut(expander.reductions[-1].node)
        block = min(BLOCK, 1 << (-(-self.length // ITEMS) - 1).bit_length())
        bits = min(node.arg[0], DIGIT_BITS) if node.op == "row_sort" else node.arg[1]
        self.tile = Tile(source.dtype, bits, max(block, wave), wave)
        self.tiles = -(-self.length // self.tile.size)
        self.grid = Var("g", self.rows * self.tiles)
        self.of_row, self.of_tile = ix.unflatten(ix.var(self.grid), (self.rows, self.tiles))
        self.locals: list[Ref] = [*self.tile.refs]
        self.body: list[Stmt] = []

    def named(self, name: str) -> Kernel:
        """The kernel."""
        lanes = Loop(self.tile.lane, "lane", tuple(self.body))
        values = [self.value, *([self.ends] if self.ends else [])]
        body = Loop(self.grid, "grid", (lanes,))
        return Kernel(name, params(self.out, *values), tuple(self.locals), body, self.tile.block)

    def exists(self, number: Index) -> tuple[Index, Valid]:
        """Where in its row element `number` of the tile is, and whether there is one."""
        at = self.of_tile * self.tile.size + number
        return at, ex.bounded([(at, 0, self.length)])

    def load(self, slot: Index) -> Store:
        """A lane's element; one that does not exist has the largest key and the last place, and
        so sorts after all others."""
        at, guard = self.exists(self.tile.number(slot))
        value = ex.Rewriter({self.row: self.of_row, self.at: at}, guard=guard).expr(self.value)
        last = ex.const((1 << value.dtype.bits) - 1, value.dtype)
        return Store(self.tile.key, slot, ex.guarded(value, guard, last))

    def exchange(self, of: Ref, name: str, shift: Expr) -> Ref:
        """Shared memory for the sorted tile's elements of `of`, and the stores to it."""
        shared = Ref(name, of.dtype, self.tile.size, "shared")
        self.locals.append(shared)
        put = self.tile.slots(
            lambda slot: Store(shared, self.tile.place(slot, shift), ex.load(of, slot))
        )
        self.body.append(put)
        return shared


def _counts(sort: _Sort) -> _Sort:
    shift, _ = sort.node.arg
    tile = sort.tile

    def put(number: Index) -> Stmt:
        digit = tile.digit_of_lane(number)
        at = ix.flatten((sort.of_row, digit, sort.of_tile), sort.node.shape)
        value = cast(ex.load(tile.total, number), sort.node.dtype)
        return Store(sort.out, at, value, ex.bounded([(digit, 0, tile.radix)]))

    amount = ex.const(shift, sort.value.dtype)
    sort.body += [tile.slots(sort.load), *tile.counted(amount), tile.digits(put)]
    return sort


def _scatter(sort: _Sort) -> _Sort:
    shift, _, place_bits = sort.node.arg
    tile, ends = sort.tile, sort.ends
    if ends is None:
        raise ValueError(f"{sort.node} has no ends of digits")
    amount = ex.const(shift, sort.value.dtype)
    begins = Ref("begins", ends.dtype, tile.radix, "shared")
    sort.locals.append(begins)

    def begin(number: Index, local: Expr) -> Stmt:
        """Where the digit begins in the row, less where it begins in the tile."""
        digit = tile.digit_of_lane(number)
        exists = ex.bounded([(digit, 0, tile.radix)])
        end = digit * sort.tiles + sort.of_tile - 1
        guard = (*exists, *ex.bounded([(end, 0, sort.end.extent)]))
        rewriter = ex.Rewriter({sort.row: sort.of_row, sort.end: end}, guard=guard)
        before = op("sub", rewriter.expr(ends), cast(local, ends.dtype))
        return Store(begins, digit, before, exists)

    sort.body += [tile.slots(sort.load), *tile.counted(amount), *tile.offsets(begin)]
    shared = sort.exchange(tile.key, "tile", amount)

    def put(slot: Index) -> Stmt:
        number = slot * tile.block + ix.var(tile.lane)
        _, guard = sort.exists(number)
        key = ex.load(shared, number)
        value = Expr("index", dt.int64, (), number)
        found = op("add", ex.load(begins, tile.digit(key, amount)), cast(value, ends.dtype))
        at = sort.of_row * sort.length + Index({Dyn(found, 0, sort.length - 1): 1}, 0)
        kept = cast(op("and", key, (1 << place_bits) - 1), dt.int64) if place_bits else key
        return Store(sort.out, at, kept, guard)

    sort.body += [Barrier(), tile.slots(put)]
    return sort


def _row(sort: _Sort) -> _Sort:
    (key_bits,) = sort.node.arg
    tile = sort.tile
    places = Ref("places", dt.int32, ITEMS, "register")
    sort.locals.append(places)
    again = Var("pass", -(-key_bits // DIGIT_BITS))
    shift = cast(Expr("index", dt.int64, (), ix.var(again) * DIGIT_BITS), sort.value.dtype)

    def number(slot: Index) -> Expr:
        return cast(Expr("index", dt.int64, (), tile.number(slot)), dt.int32)

    first = tile.slots(sort.load, lambda slot: Store(places, slot, number(slot)))
    sort.body += [*tile.counted(shift), *tile.offsets()]
    shared = [sort.exchange(of, f"sorted_{of.name}", shift) for of in (tile.key, places)]
    back = [_back(tile, *pair) for pair in zip((tile.key, places), shared, strict=True)]
    step = (*sort.body, Barrier(), *back)

    def put(slot: Index) -> Stmt:
        at, guard = sort.exists(tile.number(slot))
        value = cast(ex.load(places, slot), dt.int64)
        return Store(sort.out, sort.of_row * sort.length + at, value, guard)

    loop = Loop(again, "serial" if again.extent > 1 else "unroll", step)
    sort.body = [first, loop, tile.slots(put)]
    return sort


def _back(tile: Tile, to: Ref, shared: Ref) -> Stmt:
    """A lane takes its elements of the sorted tile."""
    return tile.slots(lambda slot: Store(to, slot, ex.load(shared, tile.number(slot))))


_LOWER: dict[str, Callable[[_Sort], _Sort]] = {
    "digit_counts": _counts, "digit_scatter": _scatter, "row_sort": _row,
}  # fmt: skip
SORTS = frozenset(_LOWER)
