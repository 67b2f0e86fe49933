"""Random graphs of the primitives, with bounds of size and error for every value.

Integer-valued floats below their dtype's precision are exact in any order of operations, so that
most results compare bit for bit; others carry a bound from which a tolerance follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from compilers import dtype as dt
from compilers import graph
from compilers.dtype import DType
from compilers.graph import Node, Shape

EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 40)
PRODUCT_EXTENTS = (1, 3, 4, 5, 12, 13, 17, 32, 33, 64, 70)
MOST_ELEMENTS = 6000
PRECISION = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
LEAVES = (dt.int32, dt.int32, dt.float32, dt.float32, dt.float32, dt.int64, dt.float64, dt.bool_,
          dt.uint8, dt.int8, dt.bfloat16, dt.float16)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Value:
    """A node, the largest magnitude it or anything below it has, and whether it is exact."""

    node: Node
    bound: float
    exact: bool = True


def bits_of(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Small integers as the stored elements of `dtype`."""
    if dtype is dt.bfloat16:
        words = np.asarray(array, np.float32).view(np.uint32)
        return np.asarray(words >> 16, np.uint16)
    return np.asarray(array, dtype.name)


class Maker:
    """Grows a graph from a seed: `roots(n)`."""

    def __init__(self, seed: int) -> None:
        self.random, self.numbers = Random(seed), np.random.default_rng(seed)
        self.pool: list[Value] = []

    def roots(self, steps: int) -> list[Value]:
        """One to three results of a graph of about `steps` operations."""
        for _ in range(self.random.randint(1, 3)):
            self.leaf()
        rules: list[Callable[[], None]] = [
            self.movement, self.movement, self.unary, self.binary, self.binary, self.binary,
            self.choose, self.reduce, self.reduce, self.spread, self.product, self.gather,
            self.special, self.softmax, self.leaf, self.transposed, self.window, self.shared,
        ]  # fmt: skip
        for _ in range(steps):
            self.random.choice(rules)()
        made = [value for value in self.pool if value.node.op != "buffer"] or self.pool
        return [made[-1], *(self.random.choice(made) for _ in range(self.random.randint(0, 2)))]

    def keep(self, node: Node, bound: float, exact: bool) -> None:
        """Add a value, unless it is too large, in elements or in magnitude."""
        if math.prod(node.shape) > 4 * MOST_ELEMENTS or len(node.shape) > 6:
            return
        limit = PRECISION.get(node.dtype.name)
        if limit is not None and (bound > 2.0**limit if exact else bound > 2.0 ** min(limit, 40)):
            return
        self.pool.append(Value(node, bound, exact))

    def some(self) -> Value:
        """A value, recent ones more often."""
        recent = self.pool[-3:] if self.random.random() < 0.6 else self.pool
        return self.random.choice(recent)

    # leaves and movement

    def leaf(self) -> None:
        """A buffer of small integers, or an iota."""
        if self.random.random() < 0.1:
            n = self.random.choice(EXTENTS)
            self.keep(graph.iota(n), n, True)
            return
        rank = self.random.choice((0, 1, 2, 2, 2, 3, 3, 4))
        shape = [self.random.choice(EXTENTS) for _ in range(rank)]
        if rank and self.random.random() < 0.05:
            shape[self.random.randrange(rank)] = 0
        while math.prod(shape) > MOST_ELEMENTS:
            shape[shape.index(max(shape))] //= 2
        self.buffer(tuple(shape), self.random.choice(LEAVES))

    def buffer(self, shape: Shape, dtype: DType) -> Value:
        """A leaf of that shape."""
        low = 0 if dtype.kind in "ub" else -3
        array = self.numbers.integers(low, 2 if dtype.kind == "b" else 4, shape)
        value = Value(graph.buffer(bits_of(array, dtype), dtype, shape), 3.0)
        self.pool.append(value)
        return value

    def movement(self) -> None:
        x = self.some()
        kind = self.random.choice(("reshape", "permute", "expand", "pad", "slice", "crop"))
        self.keep(getattr(self, "_" + kind)(x.node), x.bound, x.exact)

    def _reshape(self, x: Node) -> Node:
        size, shape = math.prod(x.shape), []
        if not size:
            return x
        for _ in range(self.random.randint(0, 3)):
            factors = [n for n in range(1, min(size, 64) + 1) if size % n == 0]
            shape.append(self.random.choice(factors))
            size //= shape[-1]
        shape.insert(self.random.randint(0, len(shape)), size)
        return graph.reshape(x, tuple(shape))

    def _permute(self, x: Node) -> Node:
        axes = list(range(len(x.shape)))
        self.random.shuffle(axes)
        return graph.permute(x, axes)

    def _expand(self, x: Node) -> Node:
        at = self.random.randint(0, len(x.shape))
        shape = (*x.shape[:at], 1, *x.shape[at:])
        wide = (*x.shape[:at], self.random.choice((0, *EXTENTS)), *x.shape[at:])
        return graph.expand(graph.reshape(x, shape), wide)

    def _pad(self, x: Node) -> Node:
        return graph.pad(x, [(self.random.choice((0, 0, 1, 3)), self.random.choice((0, 1, 5)))
                             for _ in x.shape])  # fmt: skip

    def _slice(self, x: Node) -> Node:
        steps, shape = [], []
        for n in x.shape:
            start, step, count = 0, 1, n
            kind = self.random.choice(("whole", "flip", "skip", "part"))
            if kind == "flip":
                start, step = max(n - 1, 0), -1
            elif kind == "skip":
                step = self.random.choice((2, 3))
                count = -(-n // step)
            elif kind == "part" and n:
                start = self.random.randrange(n)
                count = self.random.randint(1, n - start)
            steps.append((start, step))
            shape.append(count)
        return graph.slice_(x, steps, tuple(shape))

    def _crop(self, x: Node) -> Node:
        shape = tuple(self.random.randint(min(n, 1), n) for n in x.shape)
        return graph.slice_(x, [(0, 1)] * len(shape), shape)

    # elementwise

    def fit(self, x: Node, shape: Shape) -> Node:
        """x broadcast, cut and padded to `shape`."""
        rank = len(shape)
        if len(x.shape) > rank:
            x = graph.reshape(x, (math.prod(x.shape),)) if rank else self._first(x)
        x = graph.reshape(x, (1,) * (rank - len(x.shape)) + x.shape)
        if math.prod(x.shape) == 0 or 0 in shape:
            return graph.const(0, x.dtype, shape)
        cut = tuple(min(n, m) if n > 1 else n for n, m in zip(x.shape, shape, strict=True))
        x = graph.slice_(x, [(0, 1)] * rank, cut)
        front = self.random.random() < 0.5
        gaps = [m - n if n > 1 else 0 for n, m in zip(cut, shape, strict=True)]
        if math.prod(x.shape):
            x = graph.pad(x, [(gap, 0) if front else (0, gap) for gap in gaps])
        return graph.broadcast(x, shape)

    def _first(self, x: Node) -> Node:
        if not math.prod(x.shape):
            return graph.const(0, x.dtype)
        one = graph.slice_(x, [(0, 1)] * len(x.shape), (1,) * len(x.shape))
        return graph.reshape(one, ())

    def like(self, x: Value) -> Value:
        """Another value, of the dtype and shape of x."""
        node, bound, exact = self.same_dtype(x.node.dtype)
        return Value(self.fit(node, x.node.shape), bound, exact)

    def same_dtype(self, dtype: DType) -> tuple[Node, float, bool]:
        found = [value for value in self.pool if value.node.dtype is dtype]
        if found and self.random.random() < 0.85:
            value = self.random.choice(found)
            return value.node, value.bound, value.exact
        number = self.random.choice((0, 1, 2, 3))
        return graph.const(number, dtype), 3.0, True

    def unary(self) -> None:
        x = self.some()
        dtype = x.node.dtype
        if self.random.random() < 0.4:
            self.cast(x)
        elif dtype.kind == "b" or (dtype.kind != "f" and self.random.random() < 0.3):
            self.keep(graph.unary("invert", x.node), x.bound + 1, x.exact)
        else:
            self.keep(graph.unary(self.random.choice(("neg", "abs")), x.node), x.bound, x.exact)

    def cast(self, x: Value) -> None:
        target = self.random.choice(LEAVES)
        if not x.exact and target is not dt.float32:
            return
        wraps = x.node.dtype.kind != "f" and x.bound > 100 and target.kind != "f"
        unsafe = x.node.dtype.kind == "f" and target.kind != "f"
        if unsafe and (target.kind == "u" or x.bound > 100):
            return
        wide = 2.0**63 if wraps else x.bound
        self.keep(graph.cast(x.node, target), wide, x.exact)

    def binary(self) -> None:
        x = self.some()
        y = self.like(x)
        self.combine(x, y)

    def combine(self, x: Value, y: Value) -> None:
        """x op y for a random op."""
        dtype, exact = x.node.dtype, x.exact and y.exact
        if exact and self.random.random() < 0.15:
            op = self.random.choice(("lt", "le", "eq", "ne"))
            self.keep(graph.binary(op, x.node, y.node), 1, True)
            return
        ops = ("add", "sub", "mul", "max", "min") if dtype.kind != "b" else ("and", "or", "xor")
        op = self.random.choice(ops)
        total = x.bound * y.bound if op == "mul" else x.bound + y.bound
        self.keep(graph.binary(op, x.node, y.node), total, exact)

    def choose(self) -> None:
        x = self.some()
        y = self.like(x)
        condition = self.same_dtype(dt.bool_)
        where = self.fit(condition[0], x.node.shape)
        self.keep(graph.where(where, x.node, y.node), max(x.bound, y.bound), x.exact and y.exact)

    def transposed(self) -> None:
        """x op permuted x: the same value at two indices of one kernel."""
        x = self.some()
        moved = self.fit(self._permute(x.node), x.node.shape)
        self.combine(x, Value(moved, x.bound, x.exact))

    def shared(self) -> None:
        """A value and a piece of it."""
        x = self.some()
        piece = self.random.choice((self._slice, self._pad, self._crop))(x.node)
        self.combine(x, Value(self.fit(piece, x.node.shape), x.bound, x.exact))

    # reductions

    def axes(self, x: Node) -> Sequence[int]:
        count = self.random.randint(1, max(len(x.shape), 1))
        return sorted(self.random.sample(range(len(x.shape)), min(count, len(x.shape))))

    def reduced(self, x: Value, axes: Sequence[int]) -> Value | None:
        """A reduction of x, if its bound allows one."""
        kinds = ("max", "min") if x.node.dtype.kind == "b" else ("add", "add", "add", "max", "min")
        kind = self.random.choice(kinds)
        empty = any(x.node.shape[axis] == 0 for axis in axes)
        if not axes or (empty and kind != "add"):
            return None
        bound = x.bound * (math.prod(x.node.shape[axis] for axis in axes) if kind == "add" else 1)
        limit = PRECISION.get(x.node.dtype.name)
        if limit is not None and bound > 2.0**limit:
            return None
        return Value(graph.reduce(kind, x.node, axes), bound, x.exact)

    def reduce(self) -> None:
        x = self.some()
        made = self.reduced(x, self.axes(x.node))
        if made is not None:
            self.keep(made.node, made.bound, made.exact)

    def spread(self) -> None:
        """x op its own reduction, spread back."""
        x = self.some()
        axes = self.axes(x.node)
        made = self.reduced(x, axes)
        if made is not None:
            kept = tuple(1 if axis in axes else n for axis, n in enumerate(x.node.shape))
            wide = graph.expand(graph.reshape(made.node, kept), x.node.shape)
            self.combine(x, Value(wide, made.bound, made.exact))

    def softmax(self) -> None:
        x = self.some()
        node = x.node
        if node.dtype.name not in ("float32", "float64") or not node.shape or x.bound > 50:
            return
        if 0 in node.shape:
            return
        axis = self.random.randrange(len(node.shape))
        kept = tuple(1 if a == axis else n for a, n in enumerate(node.shape))

        def along(kind: str, y: Node) -> Node:
            return graph.expand(graph.reshape(graph.reduce(kind, y, (axis,)), kept), node.shape)

        powers = graph.unary("exp", graph.binary("sub", node, along("max", node)))
        self.keep(graph.binary("div", powers, along("add", powers)), max(x.bound, 1.0), False)

    def product(self) -> None:
        """A matrix product of fresh or fitted operands, possibly batched, transposed, narrow."""
        pick = self.random.choice
        m, n, k = pick(PRODUCT_EXTENTS), pick(PRODUCT_EXTENTS), pick(PRODUCT_EXTENTS)
        batch: Shape = pick(((), (), (3,), (2, 2)))
        dtype = pick((dt.float32, dt.float32, dt.float64, dt.int32, dt.bfloat16))
        full = (*batch, m, n, k)
        if math.prod(full) > 1 << 19:
            return
        left = self._operand(dtype, (*batch, m, k), (*batch, m, 1, k), full)
        right = self._operand(dtype, (*batch, n, k), (*batch, 1, n, k), full)
        wide = dt.float32 if dtype is dt.bfloat16 else dtype
        factors = graph.cast(left.node, wide), graph.cast(right.node, wide)
        bound = left.bound * right.bound * k
        if bound > 2.0 ** PRECISION.get(wide.name, 99):
            return
        made = graph.reduce("add", graph.binary("mul", *factors), (len(full) - 1,))
        exact = left.exact and right.exact
        if dtype is dt.bfloat16 and exact and bound < 128 and pick((True, False)):
            made = graph.cast(made, dtype)
        self.keep(made, bound, exact)

    def _operand(self, dtype: DType, shape: Shape, kept: Shape, full: Shape) -> Value:
        if self.random.random() < 0.5:
            value = self.buffer(shape, dtype)
            if self.random.random() < 0.4:
                swapped = (*shape[:-2], shape[-1], shape[-2])
                other = self.buffer(swapped, dtype)
                rank = len(shape)
                axes = (*range(rank - 2), rank - 1, rank - 2)
                value = Value(graph.permute(other.node, axes), other.bound)
        else:
            node, bound, exact = self.same_dtype(dtype)
            value = Value(self.fit(node, shape), bound, exact)
        wide = graph.expand(graph.reshape(value.node, kept), full)
        return Value(wide, value.bound, value.exact)

    def window(self) -> None:
        """A correlation of rows with a short kernel: overlapping windows of one buffer."""
        rows, n, taps = self.random.choice((1, 4, 9)), self.random.choice((16, 40)), 3
        x = self.buffer((rows, n), dt.float32)
        wide = graph.pad(x.node, ((0, 0), (1, 1)))
        parts = graph.expand(graph.reshape(wide, (rows, 1, n + 2)), (rows, taps, n + 2))
        flat = graph.reshape(parts, (rows, taps * (n + 2)))
        cut = graph.slice_(flat, [(0, 1), (0, 1)], (rows, taps * (n + 1)))
        windows = graph.reshape(cut, (rows, taps, n + 1))
        weights = self.buffer((taps, 5), dt.float32)
        full = (rows, taps, n + 1, 5)
        left = graph.expand(graph.reshape(windows, (rows, taps, n + 1, 1)), full)
        right = graph.expand(graph.reshape(weights.node, (1, taps, 1, 5)), full)
        self.keep(graph.reduce("add", graph.binary("mul", left, right), (1,)), 27.0, True)

    # the rest

    def gather(self) -> None:
        x = self.some()
        if 0 in x.node.shape:
            return
        found = [v for v in self.pool if v.exact and v.node.dtype in (dt.int64, dt.int32, dt.uint8)]
        if not found:
            return
        shape = self.random.choice(found).node.shape
        indices = [
            graph.cast(self.fit(self.random.choice(found).node, shape), dt.int64)
            for _ in x.node.shape
        ]
        if indices:
            self.keep(graph.gather(x.node, indices), x.bound, x.exact)

    def special(self) -> None:
        x = self.some()
        kind = self.random.choice(("scan", "argsort", "contiguous"))
        if kind == "contiguous":
            self.keep(graph.contiguous(x.node), x.bound, x.exact)
        elif x.node.shape:
            axis = self.random.randrange(len(x.node.shape))
            n = x.node.shape[axis]
            if kind == "argsort" and x.exact:
                descending = self.random.random() < 0.5
                self.keep(graph.argsort(x.node, axis, descending), n, True)
            elif kind == "scan" and x.node.dtype.kind != "b":
                op = self.random.choice(("add", "max"))
                self.keep(graph.scan(op, x.node, axis), x.bound * max(n, 1), x.exact)
