"""Random kernels as C programs are: loops, branches, private arrays, integers of all widths.

A kernel's body is the same for a GPU, where a lane is an iteration, and for the CPU. Floats are
small whole numbers, so that no product or sum of theirs is subnormal.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np

from compilers import dtype as dt
from compilers import index as ix
from compilers.dtype import DType
from compilers.expr import const, load
from compilers.index import Dyn, Index, Var
from compilers.ir import Expr, If, Kernel, Loop, Ref, Stmt, Store

ITEMS = 150
"""Of a kernel: more than two waves, and no multiple of one."""
BLOCK = 64
KINDS = (dt.int8, dt.uint8, dt.int16, dt.uint16, dt.int32, dt.uint32, dt.int64, dt.uint64,
         dt.float32)  # fmt: skip
WHOLE = ("add", "sub", "mul", "and", "or", "xor", "max", "min", "shl", "shr", "floordiv", "mod")
FLOAT_LIMIT = 2.0**20


@dataclass
class Maker:
    """Grows one kernel from a seed."""

    seed: int
    ready: bool = False
    """Whether variables have values."""

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        kinds = self.random.sample(KINDS, 3)
        self.inputs = [
            Ref(f"in{place}", kind, ITEMS, "global", place) for place, kind in enumerate(kinds)
        ]
        self.item = Var("item", ITEMS)
        self.vars = [
            Ref(f"x{place}", self.random.choice(KINDS), 1, "register") for place in range(4)
        ]
        self.array = Ref("a", self.random.choice(KINDS), 4, "register")

    def kernel(self, *, gpu: bool) -> Kernel:
        """The kernel for a GPU, or for the CPU; the same seed gives the same program."""
        self.random, self.ready = Random(self.seed * 7 + 1), False
        zero = ix.const(0)
        start = [Store(ref, zero, self.leaf(ref.dtype, [])) for ref in self.vars]
        start += [
            Store(self.array, ix.const(place), self.leaf(self.array.dtype, []))
            for place in range(self.array.size)
        ]
        outs = [
            Ref(f"out{place}", ref.dtype, ITEMS, "global", len(self.inputs) + place)
            for place, ref in enumerate((*self.vars, self.array))
        ]
        self.ready = True
        body: list[Stmt] = [*start, *self.statements([], 2)]
        for out, ref in zip(outs, (*self.vars, self.array), strict=True):
            last = ix.const(ref.size - 1)
            body.append(Store(out, ix.var(self.item), load(ref, last)))
        loop = Loop(self.item, "item" if gpu else "grid", tuple(body))
        locals_ = (*self.vars, self.array)
        return Kernel(f"c{self.seed}", (*self.inputs, *outs), locals_, loop, BLOCK if gpu else 0)

    def arrays(self) -> list[np.ndarray]:
        """Inputs and room for outputs."""
        numbers = np.random.default_rng(self.seed)
        found = []
        for ref in self.inputs:
            if ref.dtype.kind == "f":
                found.append(numbers.integers(-50, 50, ITEMS).astype(np.float32))
            else:
                limits = np.iinfo(ref.dtype.name)
                wide = numbers.integers(
                    limits.min, limits.max, ITEMS, ref.dtype.name, endpoint=True
                )
                few = numbers.integers(0, 9, ITEMS).astype(ref.dtype.name)
                found.append(np.where(numbers.random(ITEMS) < 0.4, few, wide))
        return found + [np.zeros(ITEMS, ref.dtype.name) for ref in (*self.vars, self.array)]

    # statements

    def statements(self, around: list[Var], depth: int) -> list[Stmt]:
        """Some, nested at most so deep."""
        return [self.statement(around, depth) for _ in range(self.random.randint(2, 3))]

    def statement(self, around: list[Var], depth: int) -> Stmt:
        kind = self.random.random()
        if depth and kind < 0.2:
            var = Var(f"i{depth}", self.random.randint(2, 5))
            return Loop(var, "serial", tuple(self.statements([*around, var], depth - 1)))
        if depth and kind < 0.45:
            low = self.random.randint(0, ITEMS)
            where = ((self.place(around), low, low + self.random.randint(1, ITEMS)),)
            return If(where, tuple(self.statements(around, depth - 1)))
        if kind < 0.6:
            place = ix.const(self.random.randrange(self.array.size))
            return Store(self.array, place, self.kept(self.value(self.array.dtype, around, 2)))
        ref = self.random.choice(self.vars)
        return Store(ref, ix.const(0), self.kept(self.value(ref.dtype, around, 3)))

    def place(self, around: list[Var]) -> Index:
        """The item, or a loop's counter and the item."""
        found = ix.var(self.item)
        return found + ix.var(self.random.choice(around)) * 7 if around else found

    # values

    def kept(self, value: Expr) -> Expr:
        """A float is brought back into a range where everything is exact, and never is -0.0."""
        if value.dtype.kind != "f":
            return value
        whole = Expr("cast", dt.int32, (value,))
        return Expr("cast", dt.float32, (Expr("and", dt.int32, (whole, const(1023, dt.int32))),))

    def value(self, dtype: DType, around: list[Var], depth: int) -> Expr:
        """An expression of a dtype."""
        kind = self.random.random()
        if not depth or kind < 0.15:
            return self.leaf(dtype, around)
        if kind < 0.3:
            other = self.random.choice(KINDS)
            return Expr("cast", dtype, (self.kept(self.value(other, around, depth - 1)),))
        if kind < 0.45:
            return self._chosen(dtype, around, depth)
        sources = [self.value(dtype, around, depth - 1) for _ in range(2)]
        if dtype.kind == "f":
            op = self.random.choice(("add", "sub", "mul"))
            return self.kept(Expr(op, dtype, tuple(map(self.kept, sources))))
        op = self.random.choice(WHOLE)
        if op in ("shl", "shr"):
            amount = Expr("and", dtype, (sources[1], const(dtype.bits - 1, dtype)))
            sources = [sources[0], amount]
        return Expr(op, dtype, tuple(sources))

    def _chosen(self, dtype: DType, around: list[Var], depth: int) -> Expr:
        other = self.random.choice(KINDS)
        pair = tuple(self.kept(self.value(other, around, depth - 1)) for _ in range(2))
        condition = Expr(self.random.choice(("lt", "le", "eq", "ne")), dt.bool_, pair)
        ways = tuple(self.value(dtype, around, depth - 1) for _ in range(2))
        return Expr("where", dtype, (condition, *ways))

    def leaf(self, dtype: DType, around: list[Var]) -> Expr:
        """A constant, a variable, an input at some place, or a counter."""
        kind = self.random.random()
        if kind < 0.2:
            return const(self.random.randint(0, 100), dtype)
        if kind < 0.3 and around:
            return Expr("index", dtype, (), ix.var(self.random.choice(around)))
        known = (*self.inputs, *self.vars) if self.ready else self.inputs
        refs = [ref for ref in known if ref.dtype is dtype]
        if not refs:
            ref = self.random.choice(self.inputs)
            return Expr("cast", dtype, (self._read(ref),))
        ref = self.random.choice(refs)
        return self._read(ref) if ref.space == "global" else load(ref, ix.const(0))

    def _read(self, ref: Ref) -> Expr:
        if self.random.random() < 0.7:
            return load(ref, ix.var(self.item))
        other = self.random.choice(self.inputs)
        found = Expr("cast", dt.int64, (load(other, ix.var(self.item)),))
        near = Expr("and", dt.int64, (found, const(63, dt.int64)))
        return load(ref, Index({Dyn(near, 0, 63): 1}, 0))
