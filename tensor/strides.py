"""A strided array in a line of elements, as views of the tensor graph: nothing is copied.

Element (i, j, ...) is element `low + i * strides[0] + j * strides[1] + ...` of the line. The line
is cut into rows of the largest stride, each row into rows of the next one, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compilers import graph
from compilers.graph import Node, Shape

__all__ = ["Strided", "row_major"]


@dataclass(frozen=True, slots=True)
class Strided:
    """A shape with its strides, in elements. Negative ones run backwards, 0 repeats."""

    shape: Shape
    strides: tuple[int, ...]

    @property
    def low(self) -> int:
        """Elements from the first of the array to the first of its memory: 0 or less."""
        return sum((n - 1) * s for n, s in self._axes() if s < 0)

    @property
    def span(self) -> int:
        """Elements from the first of its memory to the last, with both; 0 of an empty array."""
        if 0 in self.shape:
            return 0
        return 1 + sum((n - 1) * abs(s) for n, s in self._axes())

    def _axes(self) -> list[tuple[int, int]]:
        return list(zip(self.shape, self.strides, strict=True))

    @property
    def contiguous(self) -> bool:
        """Whether its elements lie in row-major order without gaps."""
        places = [place for place, n in enumerate(self.shape) if n != 1]
        dense = row_major(self.shape)
        return 0 in self.shape or all(self.strides[p] == dense[p] for p in places)

    def _steps(self) -> list[int]:
        """Axes that have a step of their own, the largest first."""
        axes = [a for a, (n, s) in enumerate(self._axes()) if n > 1 and s]
        return sorted(axes, key=lambda axis: -abs(self.strides[axis]))

    @property
    def nested(self) -> bool:
        """Whether each step is longer than all that smaller steps reach: no two rows overlap."""
        reach = 1
        for axis in reversed(self._steps()):
            step = abs(self.strides[axis])
            if step < reach:
                return False
            reach += (self.shape[axis] - 1) * step
        return True

    def view(self, line: Node) -> Node:
        """The array in a line of `span` elements from its first of memory on; it is `nested`."""
        if self.contiguous:
            return graph.reshape(line, self.shape)
        order, node = self._steps(), line
        rows: Shape = ()
        for axis in order:
            n, step = self.shape[axis], abs(self.strides[axis])
            width = node.shape[-1]
            node = graph.pad(node, [(0, 0)] * len(rows) + [(0, n * step - width)])
            node = graph.reshape(node, (*rows, n, step))
            rows = (*rows, n)
            inner = width - (n - 1) * step
            steps = [(0, 1)] * (len(rows) + 1)
            node = graph.slice_(node, steps, (*rows, inner))
        node = graph.reshape(node, rows)
        node = graph.permute(node, [order.index(axis) for axis in sorted(order)])
        kept = tuple(n if axis in order else 1 for axis, n in enumerate(self.shape))
        node = graph.reshape(node, kept)
        back = [(n - 1, -1) if s < 0 and n > 1 else (0, 1) for n, s in self._axes()]
        return graph.expand(graph.slice_(node, back, kept), self.shape)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of elements in row-major order without gaps."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))
