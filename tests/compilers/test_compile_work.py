"""Compiling is linear in the size of a graph: counted in nodes visited, kernels and bytes of IR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import tensor as xp
from compilers import dtype as dt
from compilers import graph
from compilers.graph import Node
from compilers.lower.choose import Target
from compilers.plan import partition, recompute
from compilers.plan.algorithm import Expander
from compilers.plan.schedule import Plan, plan
from compilers.plan.signature import rebuild, signature
from compilers.render import llvm as render_llvm
from tensor.core import Tensor
from tests.compilers.lowering import interpret, leaf, planned
from tests.support import check

LANES = 16


@dataclass
class Work:
    """What planning one graph took."""

    visited: int
    plan: Plan

    @property
    def kernels(self) -> int:
        return len(self.plan.steps)

    @property
    def inputs(self) -> int:
        return max(len(step.values) for step in self.plan.steps) - 1

    @property
    def ir_bytes(self) -> int:
        kernels = (step.kernel for step in self.plan.steps)
        return sum(len(render_llvm.render(kernel, frozenset())) for kernel in kernels)


@pytest.fixture
def work(monkeypatch) -> Callable[[Node], Work]:
    """Plans a graph and counts the nodes that are expanded, measured or searched."""
    visited = [0]

    def counted(function):
        def run(*args):
            visited[0] += 1
            return function(*args)

        return run

    def searched(*args):
        for node in graph.postorder(*args):
            visited[0] += 1
            yield node

    monkeypatch.setattr(Expander, "_expand", counted(Expander._expand))
    monkeypatch.setattr(partition._Sizes, "_measure", counted(partition._Sizes._measure))
    monkeypatch.setattr(partition, "postorder", searched)
    monkeypatch.setattr(recompute, "toposort", lambda *args: list(searched(*args)))

    def measure(root: Node) -> Work:
        visited[0] = 0
        plan = planned(root, vector_bytes=LANES)
        return Work(visited[0], plan)

    return measure


def source(*shape: int) -> Tensor:
    """A tensor whose elements do not matter."""
    return Tensor(graph.buffer(object(), dt.float32, shape), "CPU")


def concat(n: int) -> Tensor:
    return xp.concat([source(3) for _ in range(n)])


def slices(n: int) -> Tensor:
    """Pieces of one input behind each other, as a shuffle or a roll leaves them."""
    x = source(4 * n)
    return xp.concat([x[4 * i : 4 * i + 4] for i in range(n)])


def stack(n: int) -> Tensor:
    return xp.stack([source(3) for _ in range(n)])


def chain(n: int) -> Tensor:
    x = source(3)
    for i in range(n // 2):
        x = x * 1.5 + float(i)
    return x


STEPS = (xp.abs, xp.negative, lambda x: x * 0.5, lambda x: x - 3.0, xp.square, xp.floor)


def different(n: int) -> Tensor:
    x, random = source(3), np.random.default_rng(0)
    for step in random.integers(0, len(STEPS), n):
        x = STEPS[step](x)
    return x


def turns(n: int) -> Tensor:
    x = source(48, 64)
    for i in range(n):
        x = xp.flip(x, axis=i % 2)
    return x


def layers(n: int) -> Tensor:
    x = source(8, 64)
    for _ in range(n):
        x = xp.relu(x @ source(64, 64) + source(64))
    return x


def scaled(n: int) -> Tensor:
    """Kernels in a row that each spread a vector, which asks what it costs to compute again."""
    x = source(4096, 64)._node
    for _ in range(n):
        row = graph.reshape((source(64) + 1.0)._node, (1, 64))
        x = graph.contiguous(graph.binary("mul", x, graph.expand(row, x.shape)))
    return Tensor(x, "CPU")


def tree(n: int) -> Tensor:
    """A sum of many products of few inputs, pairwise: one kernel if there were no bound."""
    inputs = [source(100) for _ in range(4)]
    return Tensor(add_up([inputs[i % 4] * float(i) for i in range(n)]), "CPU")


def crossing(n: int) -> Tensor:
    """A sum of rows and columns of one input, which do not fit one kernel: all are cut off."""
    x = source(8, 8)
    sums = [xp.sum(x * float(i), axis=i % 2, keepdims=True) for i in range(n)]
    return Tensor(add_up([x, *sums]), "CPU")


def products(n: int) -> Tensor:
    """Products of one input side by side, each of which is a kernel of its own."""
    x = source(4, 4)
    return xp.stack([x @ (x * float(i)) for i in range(n)])


def add_up(terms: list[Tensor]) -> Node:
    for _ in range(len(terms).bit_length()):
        odd = terms[-1:] if len(terms) % 2 else []
        terms = [a + b for a, b in zip(terms[::2], terms[1::2], strict=False)] + odd
    return terms[0]._node


@pytest.mark.parametrize(
    ("build", "n", "visits"),
    [
        (concat, 200, 60), (slices, 400, 60), (stack, 200, 60), (chain, 2000, 20),
        (different, 2000, 20), (turns, 1000, 30), (layers, 20, 120), (scaled, 50, 60),
        (tree, 2000, 60), (crossing, 100, 400), (products, 50, 1200),
    ],
)  # fmt: skip
def test_twice_the_graph_is_twice_the_work(work, build, n, visits):
    once, twice = work(build(n)._node), work(build(2 * n)._node)
    check(twice.visited < 2.5 * once.visited, f"{once.visited} nodes, then {twice.visited}")
    check(twice.visited < visits * 2 * n, f"{twice.visited / (2 * n)} visits for each operation")
    check(twice.kernels < 2.5 * once.kernels + 1, f"{once.kernels} kernels, {twice.kernels}")
    check(twice.ir_bytes < 2.5 * once.ir_bytes, f"{once.ir_bytes} bytes of IR, {twice.ir_bytes}")
    check(twice.inputs <= partition.MAX_INPUTS, f"a kernel reads {twice.inputs} values")


def test_a_hundred_thousand_operations_in_a_chain(work):
    x = graph.buffer(object(), dt.float32, (3,))
    for _ in range(100_000):
        x = graph.unary("neg", x)
    done = work(x)
    check(done.kernels < 600, f"{done.kernels} kernels")
    check(done.visited < 10 * 100_000, f"{done.visited} nodes")


def test_long_graphs_compute_what_numpy_does():
    parts = [np.full(3, i, np.float32) for i in range(800)]
    joined = xp.concat([xp.asarray(part) for part in parts])
    np.testing.assert_array_equal(joined.numpy(), np.concatenate(parts))
    x, want = xp.asarray(np.ones(3, np.int64)), np.ones(3, np.int64)
    for i in range(3000):
        x, want = x * 3 + i, want * 3 + i
    np.testing.assert_array_equal(x.numpy(), want)


def test_a_kernel_too_wide_is_cut_in_large_pieces(work):
    done = work(tree(1000)._node)
    check(done.kernels <= 20, f"{done.kernels} kernels")


@pytest.mark.parametrize("count", [31, 32, 33, 70])
def test_sums_of_many_inputs(count):
    arrays = [np.arange(5, dtype=np.int32) + i for i in range(count)]
    total = leaf(arrays[0])
    for array in arrays[1:]:
        total = graph.binary("add", total, leaf(array))
    np.testing.assert_array_equal(interpret(total), sum(arrays))
    most = max(len(step.values) for step in planned(total).steps)
    check(most <= 33, f"{most} parameters")


def sharing(n: int) -> list[Node]:
    """Two results of the same costly terms, all of one input: each term is realised."""
    x, terms = source(64), []
    for i in range(n):
        terms.append(x)
        for _ in range(partition.MAX_SHARED_COST + 2):
            terms[i] = terms[i] + float(i)
    return [add_up(terms), add_up([terms[0], *map(xp.negative, terms[1:])])]


def test_what_is_shared_is_an_input_too():
    key, _ = signature(sharing(100))
    steps = plan(rebuild(key).roots, Target(LANES, 1)).steps
    most = max(len(step.values) for step in steps) - 1
    check(most <= partition.MAX_INPUTS, f"a kernel reads {most} values")
    check(len(steps) < 2 * 100, f"{len(steps)} kernels")
