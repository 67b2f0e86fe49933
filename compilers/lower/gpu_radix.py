"""A workgroup's part of a radix sort: elements ranked by one digit, stably, in shared memory.

Each wave counts digits in a row of its own, so that no atomic is needed: ballots find the lanes
with equal digits, the first of them adds their number, and the number before a lane is its rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from compilers import dtype as dt
from compilers import expr as ex
from compilers import index as ix
from compilers.dtype import DType
from compilers.index import Dyn, Index, Var
from compilers.ir import Barrier, Expr, Loop, Ref, Stmt, Store
from compilers.lower.gpu_lanes import ZERO, Prefix
from compilers.math.build import cast, op, where

DIGIT_BITS = 8
ITEMS = 8
"""Elements of a lane: 2,048 of a workgroup, which with its counts are 24 KiB of shared memory."""
Make: TypeAlias = Callable[[Index], Stmt]


class Tile:
    """`key` are a lane's elements; element `slot` of a lane is number `number(slot)` of the tile:
    neighbouring lanes have neighbours, and a wave has what is together."""

    def __init__(self, dtype: DType, digit_bits: int, block: int, wave: int) -> None:
        self.digit_bits, self.radix, self.wave = digit_bits, 1 << digit_bits, wave
        self.block, self.size, self.waves = block, block * ITEMS, block // wave
        self.lane = Var("lane", block)
        self.key = Ref("key", dtype, ITEMS, "register")
        self.rank = Ref("rank", dt.int32, ITEMS, "register")
        self.counts = Ref("counts", dt.int32, self.waves * self.radix, "shared")
        self.each = max(self.radix // block, 1)
        """Digits of a lane."""
        self.column = Ref("column", dt.int32, self.waves * self.each, "register")
        self.total = Ref("digits", dt.int32, self.each, "register")
        self.prefix = Prefix("add", dt.int32, self.lane, block, wave)

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The locals of a kernel that ranks."""
        return (self.key, self.rank, self.counts, self.column, self.total, *self.prefix.refs)

    def number(self, slot: Index) -> Index:
        """See the class."""
        at = ix.var(self.lane)
        return at // self.wave * (self.wave * ITEMS) + slot * self.wave + at % self.wave

    def slots(self, *makes: Make) -> Stmt:
        """Statements for each of a lane's elements."""
        slot = Var("slot", ITEMS)
        return Loop(slot, "unroll", tuple(make(ix.var(slot)) for make in makes))

    def digits(self, *makes: Make) -> Stmt:
        """Statements for each of a lane's digits."""
        digit = Var("digit", self.each)
        return Loop(digit, "unroll", tuple(make(ix.var(digit)) for make in makes))

    def digit(self, key: Expr, shift: Expr) -> Index:
        """The digit of a key."""
        found = cast(op("and", op("shr", key, shift), self.radix - 1), dt.int32)
        return Index({Dyn(found, 0, self.radix - 1): 1}, 0)

    def digit_of_lane(self, number: Index) -> Index:
        """Which digit a lane's digit `number` is; past the last one in lanes that have none."""
        return ix.var(self.lane) * self.each + number

    def counted(self, shift: Expr) -> tuple[Stmt, ...]:
        """`rank` of each element among those of its wave and digit; `total` of each digit."""
        size, again = self.counts.size, Var("r", -(-self.counts.size // self.block))
        at = ix.var(again) * self.block + ix.var(self.lane)
        clear = Store(self.counts, at, ex.const(0, dt.int32), ex.bounded([(at, 0, size)]))
        slot = Var("slot", ITEMS)
        wave, sum_ = Var("wave", self.waves), Var("digit", self.each)
        digit = self.digit_of_lane(ix.var(sum_))
        exists = ex.bounded([(digit, 0, self.radix)])
        place = ix.var(sum_) * self.waves + ix.var(wave)
        total = ex.load(self.total, ix.var(sum_))
        load = ex.load(self.counts, ix.var(wave) * self.radix + digit, exists)
        add = Store(self.total, ix.var(sum_), op("add", total, ex.load(self.column, place)))
        return (
            Loop(again, "unroll", (clear,)),
            Barrier(),
            Loop(slot, "unroll", self._ranked(ix.var(slot), shift)),
            Barrier(),
            Loop(sum_, "unroll", (
                Store(self.total, ix.var(sum_), ex.const(0, dt.int32)),
                Loop(wave, "unroll", (Store(self.column, place, load), add)),
            )),
        )  # fmt: skip

    def _ranked(self, slot: Index, shift: Expr) -> tuple[Stmt, ...]:
        """One element: the wave's earlier ones of its digit, and earlier lanes'."""
        digit = self.digit(ex.load(self.key, slot), shift)
        at = ix.var(self.lane) // self.wave * self.radix + digit
        peers = self._peers(digit)
        below = Expr("below", dt.int32, (peers,))
        among = Expr("among", dt.int32, (peers,))
        first = ((Index({Dyn(below, 0, self.wave - 1): 1}, 0), 0, 1),)
        return (
            Store(self.rank, slot, op("add", ex.load(self.counts, at), below)),
            Barrier(wave=True),
            Store(self.counts, at, op("add", ex.load(self.rank, slot), among), first),
            Barrier(wave=True),
        )

    def _peers(self, digit: Index) -> Expr:
        """Lanes of the wave with the same digit in their element."""
        word = dt.uint32 if self.wave == dt.uint32.bits else dt.uint64
        value = Expr("index", dt.int64, (), digit)
        peers: Expr | None = None
        for bit in range(self.digit_bits):
            mine = op("ne", op("and", cast(value, dt.int32), 1 << bit), 0)
            votes = Expr("ballot", word, (mine,))
            alike = where(mine, votes, op("xor", votes, (1 << word.bits) - 1))
            peers = alike if peers is None else op("and", peers, alike)
        return peers if peers is not None else ex.const((1 << word.bits) - 1, word)

    def offsets(self, also: Callable[[Index, Expr], Stmt] | None = None) -> tuple[Stmt, ...]:
        """`counts` become the starts, in the sorted tile, of each wave's elements of each digit.
        `also` makes a statement for each digit of a lane, from the start of the digit."""
        prefix = self.prefix
        total, sum_ = ex.load(prefix.total, ZERO), prefix.total
        wave, digit = Var("wave", self.waves), Var("digit", self.each)
        place = ix.var(digit) * self.waves + ix.var(wave)
        here, before = self.digit_of_lane(ix.var(digit)), ex.load(prefix.before, ZERO)
        exists = ex.bounded([(here, 0, self.radix)])
        put = Store(self.counts, ix.var(wave) * self.radix + here, before, exists)
        step = Store(prefix.before, ZERO, op("add", before, ex.load(self.column, place)))
        return (
            Store(prefix.carry, ZERO, ex.const(0, dt.int32)),
            Store(sum_, ZERO, ex.const(0, dt.int32)),
            self.digits(lambda n: Store(sum_, ZERO, op("add", total, ex.load(self.total, n)))),
            *prefix.stmts(ZERO),
            Loop(digit, "unroll", (
                *((also(ix.var(digit), before),) if also else ()),
                Loop(wave, "unroll", (put, step)),
            )),
            Barrier(),
        )  # fmt: skip

    def place(self, slot: Index, shift: Expr) -> Index:
        """Position of an element in the sorted tile; after `offsets`."""
        digit = self.digit(ex.load(self.key, slot), shift)
        at = ix.var(self.lane) // self.wave * self.radix + digit
        found = op("add", ex.load(self.rank, slot), ex.load(self.counts, at))
        return Index({Dyn(found, 0, self.size - 1): 1}, 0)
