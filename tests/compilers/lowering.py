"""Runs a graph's plan through the IR interpreter: scheduling and lowering without a renderer."""

from __future__ import annotations

from typing import Any

import numpy as np

from compilers import dtype as dt
from compilers import graph
from compilers.graph import Node
from compilers.lower.choose import Target
from compilers.lower.contraction import Blocking
from compilers.plan.schedule import Plan, plan
from compilers.plan.signature import rebuild, signature
from tests.ir_interpreter import Interpreter

Array = np.ndarray[Any, Any]


def leaf(array: Array) -> Node:
    """A buffer node over a numpy array."""
    array = np.ascontiguousarray(array)
    return graph.buffer(array, dt.BY_NAME[array.dtype.name], array.shape)


def planned(root: Node, vector_bytes: int = 16, threads: int = 1) -> Plan:
    """The plan of one root."""
    key, _ = signature([root])
    return plan(rebuild(key).roots, Target(vector_bytes, threads))


SMALL = Blocking(kc=16, mc=24, nc=32)


def interpret(
    root: Node,
    vector_bytes: int = 16,
    threads: int = 1,
    blocking: Blocking = SMALL,
    features: frozenset[str] = frozenset({"fma"}),
) -> Array:
    """The root's elements, computed scalar by scalar; outputs start as garbage."""
    key, leaves = signature([root])
    target = Target(vector_bytes, threads, features, blocking)
    found = plan(rebuild(key).roots, target)
    values = [array.reshape(-1) for array in leaves]
    values += [np.full(nbytes, 0xAB, np.uint8) for nbytes in found.nbytes]
    for step in found.steps:
        arrays = {
            ref: values[value].view(ref.dtype.name)
            for ref, value in zip(step.kernel.params, step.values, strict=True)
        }
        Interpreter(step.kernel, arrays).run()
    return values[found.roots[0]].view(root.dtype.name).reshape(root.shape)


def matmul(a: Node, b: Node) -> Node:
    """(m, k) @ (k, n) as the primitives it is made of."""
    (m, k), n = a.shape, b.shape[1]
    left = graph.expand(graph.reshape(a, (m, 1, k)), (m, n, k))
    right = graph.expand(graph.reshape(graph.permute(b, (1, 0)), (1, n, k)), (m, n, k))
    return graph.reduce("add", graph.binary("mul", left, right), (2,))


def rows(x: Node, kind: str) -> Node:
    """A reduction over the last axis, spread back over it."""
    shape = (*x.shape[:-1], 1)
    reduced = graph.reduce(kind, x, (len(x.shape) - 1,))
    return graph.expand(graph.reshape(reduced, shape), x.shape)


def softmax(x: Node) -> Node:
    """Over the last axis."""
    powers = graph.unary("exp", graph.binary("sub", x, rows(x, "max")))
    return graph.binary("div", powers, rows(powers, "add"))
