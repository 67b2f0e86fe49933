"""Which values int64 nodes may have, and the same graph in int32 for devices without int64.

Positions (`iota`, indices, the results of argsort) are int64 in the graph. Where every value fits,
and none is given or asked for as int64, they are computed and stored as int32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from compilers import dtype as dt
from compilers.graph import Node
from drivers.base.errors import Unsupported

Range: TypeAlias = tuple[int, int]
"""Smallest and largest value there may be."""
WHOLE: Range = dt.limits(dt.int64)
NARROW: Range = dt.limits(dt.int32)
_SAME = frozenset({"reshape", "permute", "expand", "slice", "contiguous", "gather"})


def narrow_int64(nodes: Sequence[Node], device: str) -> None:
    """Rewrite the int64 of `nodes` (sources first) as int32, in place.

    Raises: Unsupported where a value may not fit.
    """
    found = Ranges(nodes)
    for node in nodes:
        if node.dtype is dt.int64:
            low, high = found.used(node)
            if low < NARROW[0] or high > NARROW[1]:
                raise Unsupported(
                    f"{device or 'this device'} has no int64, which the result of "
                    f"{node.op} may need ({low} ... {high})",
                    hint="Cast to int32 before, or use the CPU",
                )
    for node in nodes:
        if node.dtype is dt.int64:
            node.dtype = dt.int32


class Ranges:
    """Of every integer node; computed sources first."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._found: dict[Node, Range] = {}
        self._used: dict[Node, Range] = {}
        for node in nodes:
            if node.dtype.kind != "f":
                limits = dt.limits(node.dtype)
                low, high = self._range(node) if node.dtype is dt.int64 else limits
                fits = limits[0] <= low and high <= limits[1]
                self._found[node] = (low, high) if fits else limits
        for node in nodes:
            self._use(node)

    def of(self, node: Node) -> Range:
        """Its smallest and largest value; a float's integer part is anything."""
        return self._found.get(node, WHOLE)

    def used(self, node: Node) -> Range:
        """Those of its values that something is computed from: a `where` takes only one side."""
        return self._used.get(node, self.of(node))

    def _use(self, user: Node) -> None:
        taken = dict[Node, Range]()
        for source in user.src:
            taken[source] = self.of(source)
        if user.op == "where":
            condition, a, b = user.src
            if a is not b and condition not in (a, b):
                taken[a], taken[b] = self._sides(condition, a, b)
        for source, values in taken.items():
            before = self._used.get(source, values)
            self._used[source] = _joined(before, values)

    def _range(self, node: Node) -> Range:
        if node.op == "const":
            return node.arg, node.arg
        if node.op in ("iota", "argsort"):
            axis = 0 if node.op == "iota" else node.arg[0]
            return 0, max(node.shape[axis] - 1, 0)
        if node.op in _SAME or node.op == "cast":
            return self.of(node.src[0])
        if node.op == "pad":
            return _joined(self.of(node.src[0]), (0, 0))
        if node.op == "where":
            return _joined(*self._sides(*node.src))
        if node.op in ("reduce", "scan"):
            return self._reduced(node)
        if len(node.src) == 1:
            return _UNARY.get(node.op, _anything)(self.of(node.src[0]))
        if len(node.src) == 2:
            return _BINARY.get(node.op, _anything)(*map(self.of, node.src))
        return WHOLE

    def _sides(self, condition: Node, a: Node, b: Node) -> tuple[Range, Range]:
        """Where the condition is x < a constant, values of x are on one side of it."""
        if condition.op != "lt":
            return self.of(a), self.of(b)
        x, (low, high) = condition.src[0], self.of(condition.src[1])
        below, above = (WHOLE[0], high - 1), (low, WHOLE[1])
        return self._given(a, x, below), self._given(b, x, above)

    def _given(self, node: Node, x: Node, part: Range) -> Range:
        """Of a node that is x, or one operation on it, for these values of x."""
        low, high = self.of(x)
        inside = max(low, part[0]), min(high, part[1])
        if inside[0] > inside[1]:
            return 0, 0  # it is never chosen
        if node is x:
            return inside
        if node.op in _BINARY and x in node.src and node.dtype is dt.int64:
            return _BINARY[node.op](*(inside if s is x else self.of(s) for s in node.src))
        return self.of(node)

    def _reduced(self, node: Node) -> Range:
        kind, axes = node.arg
        source = node.src[0]
        low, high = self.of(source)
        count = 1
        for axis in [axes] if isinstance(axes, int) else axes:
            count *= source.shape[axis]
        if kind == "add":
            return min(low * count, low, 0), max(high * count, high, 0)
        return (low, high) if kind in ("max", "min") and count else WHOLE


def _joined(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def _anything(*_: Range) -> Range:
    return WHOLE


def _products(a: Range, b: Range) -> Range:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _quotient(a: Range, b: Range) -> Range:
    """floordiv; by zero is 0."""
    return (min(a[0] // b[0], 0), max(a[1] // b[0], 0)) if b[0] > 0 else WHOLE


def _rest(a: Range, b: Range) -> Range:
    return (0, b[1] - 1) if b[0] > 0 else WHOLE


def _masked(a: Range, b: Range) -> Range:
    tops = [high for low, high in (a, b) if low >= 0]
    return (0, min(tops)) if tops else WHOLE


_UNARY: dict[str, Callable[[Range], Range]] = {
    "neg": lambda a: (-a[1], -a[0]),
    "abs": lambda a: (0, max(-a[0], a[1])),
    "invert": lambda a: (~a[1], ~a[0]),
}
_BINARY: dict[str, Callable[[Range, Range], Range]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _products,
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "floordiv": _quotient,
    "mod": _rest,
    "and": _masked,
}
