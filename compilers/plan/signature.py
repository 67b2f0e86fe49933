"""The structure of a graph as one hashable value, and back.

Two graphs with the same signature run the same kernels on different buffers. Equal
subexpressions are one entry, so the graph that comes back has no common subexpression left.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from compilers.graph import Node, toposort

_FLOAT = struct.Struct("<d")
"""A float's bits: 0.0 and -0.0 differ, and NaN, which has a sign too, is equal to itself."""

Signature: TypeAlias = tuple[Any, ...]
"""Entries (op, arg, dtype, shape, sources...), then the entry numbers of the roots."""


@dataclass(slots=True)
class Blueprint:
    """A graph rebuilt from its signature: `leaves[i]` stands for the i-th storage."""

    leaves: list[Node]
    roots: list[Node]


def signature(roots: Sequence[Node]) -> tuple[Signature, list[Any]]:
    """The signature of `roots`, and the storages it leaves open, in order."""
    numbers: dict[Node, int] = {}
    entries: dict[Any, int] = {}
    leaves: dict[int, Any] = {}
    for node in toposort(roots):
        op = node.op
        if op == "buffer":
            storage = node.storage
            leaf = leaves.setdefault(id(storage), (len(leaves), storage))[0]
            entry: Any = ("buffer", leaf, node.dtype, node.shape)
        elif op == "const":
            value = node.arg
            entry = ("const", _FLOAT.pack(value) if type(value) is float else value, node.dtype, ())
        else:
            entry = (op, node.arg, node.dtype, node.shape, *[numbers[s] for s in node.src])
        numbers[node] = entries.setdefault(entry, len(entries))
    key = (*entries, tuple(numbers[root] for root in roots))
    return key, [storage for _, storage in leaves.values()]


def rebuild(key: Signature) -> Blueprint:
    """Fresh nodes for a signature; a leaf's `arg` is its storage's number."""
    nodes: list[Node] = []
    leaves: list[Node] = []
    for op, arg, dtype, shape, *sources in key[:-1]:
        if op == "const" and dtype.kind == "f":
            (arg,) = _FLOAT.unpack(arg)
        node = Node(op, tuple(nodes[number] for number in sources), arg, dtype, shape)
        nodes.append(node)
        if op == "buffer":
            leaves.append(node)
    return Blueprint(leaves, [nodes[number] for number in key[-1]])
