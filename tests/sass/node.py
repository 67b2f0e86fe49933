"""The tree of an opcode while it is searched: leaves, and splits with a node a way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.sass.leaf import Leaf
from tests.sass.plan import Bits, value_of

Values: TypeAlias = tuple[int, ...]


@dataclass
class Node:
    """A place in an opcode's tree: a leaf, or a split with a node a way."""

    leaf: Leaf | None = None
    bits: Bits = ()
    ways: list[tuple[Values | None, Node]] = field(default_factory=list)

    def leaves(self) -> Iterator[Leaf]:
        """All leaves, in the order of a plan: named values, then the rest."""
        if self.leaf:
            yield self.leaf
        for _, node in self.ways:
            yield from node.leaves()

    def find(self, word: int) -> Leaf | None:
        """The leaf that a word belongs to."""
        if not self.bits:
            return self.leaf
        value = value_of(word, self.bits)
        for values, node in self.ways:
            if values is None or value in values:
                return node.find(word)
        return None


@dataclass(frozen=True)
class Split:
    """What divides a leaf: bits, and the values and a first word of each way."""

    bits: Bits
    ways: tuple[tuple[Values, int], ...]
    other: int | None
    """A word of the rest; None: none was met."""
