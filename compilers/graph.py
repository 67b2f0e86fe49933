"""The lazy tensor graph: nodes, their primitives, and the constructors that infer shapes.

A `Node` is (op, src, arg, dtype, shape). Ops are plain strings, so that a graph's signature hashes
fast; the sets below list all ops. `tensor/` composes everything else from these.

    buffer    storage holds the elements, row-major         arg None
    const     one value of shape ()                         arg int | float | bool
    iota      0..n-1 of shape (n,), int64                   arg None
    reshape permute expand   movement                       arg: shape | axes | shape
    pad       zeros around                                  arg ((before, after), ...)
    slice     element i is element start + i * step         arg ((start, step), ...)
    UNARY BINARY where cast bitcast   elementwise, operands of equal shape
    reduce    (kind, axes) over axes, which disappear       kind: add mul max min
    scan      (kind, axis) inclusive running reduction
    argsort   (axis, descending), stable, int64
    gather    src[0][src[1][i], src[2][i], ...]: one int64 index node per axis of src[0]
    contiguous    its source, realised                      arg None
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from math import prod
from typing import Any

from compilers import dtype as dt
from compilers.dtype import DType

Shape = tuple[int, ...]

MOVEMENT = frozenset({"reshape", "permute", "expand", "pad", "slice"})
MATH1 = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
})  # fmt: skip
"""Float functions of one argument with their C names and special cases."""
UNARY = MATH1 | {"neg", "abs", "sqrt", "floor", "ceil", "trunc", "rint", "invert"}
"""invert: bitwise for integers, logical for bool. neg and abs wrap for integers."""
COMPARE = frozenset({"lt", "le", "eq", "ne"})
MATH2 = frozenset({"pow", "atan2", "hypot", "copysign", "nextafter", "fmod"})
BINARY = COMPARE | MATH2 | {
    "add", "sub", "mul", "div", "floordiv", "mod", "max", "min", "and", "or", "xor", "shl", "shr",
}  # fmt: skip
"""div: floats only. floordiv, mod: numpy's sign rules, integers and floats; x // 0 and x % 0 of
integers are 0. max, min propagate NaN. and, or, xor: integers and bool. shl, shr by the width or
more give 0 (or the sign). pow of integers wraps; a negative integer exponent gives 0, 1 or -1."""
ELEMENTWISE = UNARY | BINARY | {"where", "cast", "bitcast"}
REALISED = frozenset({"scan", "argsort", "contiguous", "row_sort", "digit_counts", "digit_scatter"})
"""Ops that always end a kernel. The last three are made by compilers/lower/gpu_sort.py only, as is
a scan of two sources by compilers/lower/gpu_scan.py."""


class Node:
    """One value of the graph. `storage` is set once the elements exist, and `src` is then ()."""

    __slots__ = ("__weakref__", "arg", "dtype", "op", "shape", "src", "storage")

    def __init__(
        self,
        op: str,
        src: tuple[Node, ...],
        arg: Any,
        dtype: DType,
        shape: Shape,
        storage: Any = None,
    ) -> None:
        self.op, self.src, self.arg = op, src, arg
        self.dtype, self.shape, self.storage = dtype, shape, storage

    def __repr__(self) -> str:
        return f"Node({self.op}, {self.dtype.name}{list(self.shape)}, arg={self.arg!r})"

    def realise(self, storage: Any) -> None:
        """Become a leaf whose elements are in `storage`; the graph above is dropped."""
        self.op, self.src, self.arg, self.storage = "buffer", (), None, storage


def buffer(storage: Any, dtype: DType, shape: Shape) -> Node:
    """A leaf whose elements `storage` holds, row-major."""
    return Node("buffer", (), None, dtype, shape, storage)


def const(value: float, dtype: DType, shape: Shape = ()) -> Node:
    """`value` everywhere in `shape`; integers wrap into the dtype, as numpy's casts do."""
    node = Node("const", (), _canonical(value, dtype), dtype, ())
    return broadcast(node, shape) if shape else node


def _canonical(value: float, dtype: DType) -> float:
    if dtype.kind == "f":
        return float(value)
    if dtype.kind == "b":
        return bool(value)
    low, _ = dt.limits(dtype)
    return ((int(value) - low) & ((1 << dtype.bits) - 1)) + low


def iota(n: int) -> Node:
    """0, 1, ..., n - 1 as int64."""
    return Node("iota", (), None, dt.int64, (n,))


def reshape(x: Node, shape: Shape) -> Node:
    """The same elements in the same order. Raises: ValueError when the sizes differ."""
    if shape == x.shape:
        return x
    if prod(shape) != prod(x.shape):
        raise ValueError(f"cannot reshape {x.shape} into {shape}")
    if x.op == "reshape":
        return reshape(x.src[0], shape)
    return Node("reshape", (x,), shape, x.dtype, shape)


def permute(x: Node, axes: Sequence[int]) -> Node:
    """Axis i of the result is axis `axes[i]` of x."""
    axes = tuple(axes)
    if axes == tuple(range(len(axes))):
        return x
    return Node("permute", (x,), axes, x.dtype, tuple(x.shape[a] for a in axes))


def expand(x: Node, shape: Shape) -> Node:
    """Repeat axes of size 1; the rank stays."""
    if shape == x.shape:
        return x
    return Node("expand", (x,), shape, x.dtype, shape)


def broadcast(x: Node, shape: Shape) -> Node:
    """numpy's broadcasting of one operand to `shape`."""
    if x.shape == shape:
        return x
    missing = len(shape) - len(x.shape)
    if missing:
        x = reshape(x, (1,) * missing + x.shape)
    return expand(x, shape)


def pad(x: Node, widths: Sequence[tuple[int, int]]) -> Node:
    """Zeros (False) before and after each axis."""
    if not any(before or after for before, after in widths):
        return x
    shape = tuple(n + before + after for n, (before, after) in zip(x.shape, widths, strict=True))
    if 0 in x.shape:
        return const(0, x.dtype, shape)
    return Node("pad", (x,), tuple(widths), x.dtype, shape)


def slice_(x: Node, steps: Sequence[tuple[int, int]], shape: Shape) -> Node:
    """Element i of each axis is element start + i * step of x, for `steps` = (start, step)..."""
    if shape == x.shape and all(start == 0 and step == 1 for start, step in steps):
        return x
    return Node("slice", (x,), tuple(steps), x.dtype, shape)


def unary(op: str, x: Node) -> Node:
    """An elementwise op of one operand."""
    return Node(op, (x,), None, x.dtype, x.shape)


def binary(op: str, a: Node, b: Node) -> Node:
    """Operands of equal dtype and shape; comparisons give bool."""
    return Node(op, (a, b), None, dt.bool_ if op in COMPARE else a.dtype, a.shape)


def where(condition: Node, a: Node, b: Node) -> Node:
    """`a` where the bool node `condition` holds, else `b`."""
    return Node("where", (condition, a, b), None, a.dtype, a.shape)


def cast(x: Node, dtype: DType) -> Node:
    """The values in another dtype."""
    return x if x.dtype is dtype else Node("cast", (x,), None, dtype, x.shape)


def bitcast(x: Node, dtype: DType) -> Node:
    """The bits as another dtype of the same size."""
    return x if x.dtype is dtype else Node("bitcast", (x,), None, dtype, x.shape)


def reduce(kind: str, x: Node, axes: Sequence[int]) -> Node:
    """Over `axes`, which disappear. An empty reduction gives 0, 1, or the dtype's extreme."""
    axes = tuple(sorted(axes))
    if not axes:
        return x
    shape = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
    return Node("reduce", (x,), (kind, axes), x.dtype, shape)


def scan(kind: str, x: Node, axis: int) -> Node:
    """The running reduction along `axis`, its own element included."""
    return Node("scan", (x,), (kind, axis), x.dtype, x.shape)


def argsort(x: Node, axis: int, descending: bool) -> Node:
    """Stable; NaN sorts as the largest value, as numpy's does."""
    return Node("argsort", (x,), (axis, descending), dt.int64, x.shape)


def gather(x: Node, indices: Sequence[Node]) -> Node:
    """`indices`: one int64 node per axis of x, all of the result's shape. An index outside its
    axis is clamped into it, so that no kernel reads outside a buffer."""
    return Node("gather", (x, *indices), None, x.dtype, indices[0].shape)


def contiguous(x: Node) -> Node:
    """x, realised in memory."""
    return x if x.op == "buffer" else Node("contiguous", (x,), None, x.dtype, x.shape)


def shown(node: Node, ops: Collection[str], leaf: Callable[[Node], bool] | None = None) -> Node:
    """The node below a chain of `ops`, or the first for which `leaf` holds."""
    stack = [node]
    while stack:
        node = stack.pop()
        if node.op in ops and not (leaf and leaf(node)):
            stack.append(node.src[0])
    return node


def toposort(roots: Sequence[Node], leaf: Callable[[Node], bool] | None = None) -> list[Node]:
    """Every node below `roots`, sources first, each once; see `postorder`."""
    return list(postorder(roots, leaf))


def postorder(roots: Sequence[Node], leaf: Callable[[Node], bool] | None = None) -> Iterator[Node]:
    """Every node below `roots`, sources first, each once, but not what is below a node for which
    `leaf` holds when it is come to. Iterative: depth is no limit."""
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            if leaf is None or not leaf(node):
                stack.extend((source, False) for source in reversed(node.src))
