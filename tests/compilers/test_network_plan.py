"""What a convolutional network keeps in memory, and where its kernels are cut."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import tensor as xp
from benchmarks import resnet
from compilers import dtype as dt
from compilers import graph
from compilers.graph import Node
from compilers.plan.liveness import last_uses
from compilers.plan.liveness import peak_bytes as most_alive
from compilers.plan.schedule import Plan
from tensor.core import Tensor
from tensor.executable import Reuse
from tests.compilers.lowering import interpret, leaf, planned, rows
from tests.support import check

FLOAT = 4
CONVOLUTIONS = 20


class Scaled(resnet.Ours):
    """The batch norm as one product and one sum."""

    def batch_norm(self, x: Any, mean: Any, spread: Any, scale: Any, shift: Any) -> Any:
        return x * scale + shift


class Biased(resnet.Ours):
    """No batch norm: a bias."""

    def batch_norm(self, x: Any, mean: Any, spread: Any, scale: Any, shift: Any) -> Any:
        return x + shift


def source(*shape: int) -> Tensor:
    return Tensor(graph.buffer(object(), dt.float32, shape), "CPU")


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    return {name: source(*array.shape) for name, array in resnet.weights().items()}


def alive_at_once(plan: Plan) -> int:
    """The most bytes of values between their first and last use; results stay to the end."""
    uses: dict[int, list[int]] = {}
    for number, step in enumerate(plan.steps):
        for value in step.values:
            if value >= plan.leaves:
                uses.setdefault(value, []).append(number)
    for value in plan.roots:
        uses.setdefault(value, []).append(len(plan.steps))
    return max(
        sum(plan.nbytes[v - plan.leaves] for v, at in uses.items() if at[0] <= n <= at[-1])
        for n in range(len(plan.steps))
    )


@pytest.mark.parametrize("batch", [2, 8])
@pytest.mark.parametrize("style", [resnet.Ours, Scaled, Biased])
def test_a_residual_network_keeps_activations_and_nothing_larger(weights, style, batch):
    images = source(batch, 3, resnet.SIDE, resnet.SIDE)
    plan = planned(resnet.forward(style(xp), weights, images)._node, vector_bytes=64)
    largest = batch * resnet.WIDTHS[0] * (resnet.SIDE // 2) ** 2 * FLOAT
    check(max(plan.nbytes) <= largest, f"{max(plan.nbytes)} bytes, an activation has {largest}")
    check(plan.peak_bytes <= 1.5 * largest, f"{plan.peak_bytes} bytes, {largest} an activation")
    np.testing.assert_equal(plan.peak_bytes, alive_at_once(plan))
    check(len(plan.steps) <= CONVOLUTIONS + 5, f"{len(plan.steps)} kernels")


def convolution(x: Node, weight: Node, pads: int) -> Node:
    return xp.conv2d(Tensor(x, "CPU"), Tensor(weight, "CPU"), padding=pads)._node


def test_a_batch_norm_is_computed_behind_its_convolution():
    x, w, v, g = (source(*s)._node for s in ((2, 8, 20, 20), (8, 8, 3, 3), (8, 8, 3, 3), (8, 1, 1)))
    norm = Tensor(convolution(x, w, 1), "CPU") / xp.sqrt(Tensor(g, "CPU")) + 1.0
    plan = planned(convolution(xp.relu(norm)._node, v, 1))
    np.testing.assert_equal([len(step.values) for step in plan.steps], [4, 3])


def test_what_one_reduction_is_followed_by_stays_where_it_ends_the_kernel():
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    total = graph.reduce("add", leaf(x), (1,))
    turned = graph.binary("add", total, graph.slice_(total, ((3, -1),), (4,)))
    want = x.sum(1) + x.sum(1)[::-1]
    np.testing.assert_array_equal(interpret(graph.unary("neg", turned)), -want)


def test_a_stack_of_norms_is_cut_between_them():
    x = source(64, 128)._node
    for _ in range(12):
        centred = graph.binary("sub", x, rows(x, "max"))
        spread = graph.unary("abs", rows(graph.binary("mul", centred, centred), "add"))
        x = graph.binary("add", x, graph.binary("div", centred, spread))
    plan = planned(x)
    sizes = {plan.nbytes[step.values[0] - plan.leaves] for step in plan.steps}
    check(len(plan.steps) <= 6, f"{[step.kernel.name for step in plan.steps]}")
    np.testing.assert_equal(sizes, {64 * 128 * FLOAT})


def test_a_chain_is_cut_at_its_narrow_place():
    x = source(4, 100)._node
    for _ in range(20):
        x = graph.unary("sin", x)
    x = graph.reduce("add", x, (1,))
    for _ in range(10):
        x = graph.unary("sin", x)
    x = graph.expand(graph.reshape(x, (4, 1)), (4, 1000))
    for _ in range(30):
        x = graph.unary("sin", x)
    sizes = sorted(planned(x).nbytes)
    np.testing.assert_equal(sizes, [4 * FLOAT, 4000 * FLOAT])


def test_lifetimes():
    steps = [("b", "a"), ("c", "b"), ("d", "c", "b"), ("e", "d")]
    np.testing.assert_equal(last_uses(steps, "ae"), [(), (), ("c", "b"), ("d",)])
    np.testing.assert_equal(most_alive(steps, {"b": 1, "c": 2, "d": 4, "e": 8}, "ae"), 12)
    np.testing.assert_equal(most_alive(steps, {"b": 10, "c": 2, "d": 4, "e": 1}, "abe"), 16)


def test_jit_reports_and_reuses_what_is_alive_at_once(monkeypatch):
    side, weight = 64, np.eye(64, dtype=np.float32) * 2
    taken = []

    class Counted(Reuse):
        def take(self, nbytes):
            taken.append(super().take(nbytes))
            return taken[-1]

    monkeypatch.setattr(import_module("tensor.jit"), "Reuse", Counted)

    @xp.jit
    def powers(x, w):
        for _ in range(10):
            x = x @ w
        return x

    np.testing.assert_equal(powers.peak_bytes, 0)
    w = xp.asarray(weight)
    for value in (1.0, 3.0):
        x = np.full((side, side), value, np.float32)
        np.testing.assert_array_equal(powers(xp.asarray(x), w).numpy(), x * 2**10)
    # The product before and the one being made; the last one is the caller's.
    np.testing.assert_equal((len(taken), len({id(buffer) for buffer in taken})), (9, 2))
    np.testing.assert_equal(powers.peak_bytes, 2 * side * side * FLOAT)
    check("1 recordings, at most 10 kernels and 0.0 MB" in repr(powers), repr(powers))
