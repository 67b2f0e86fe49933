"""Devices whose kernels name few buffers: graphs are cut into kernels that fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compilers import dtype as dt
from compilers import graph
from compilers.graph import Node
from compilers.lower.choose import Target
from compilers.plan.schedule import Plan, plan
from compilers.plan.signature import rebuild, signature
from drivers.base.errors import Unsupported
from tests import oracle
from tests.compilers.lowering import leaf, matmul
from tests.compilers.made_up_gpus import GPUS, UNITS
from tests.graph_maker import Maker
from tests.ir_interpreter import Interpreter
from tests.share import part
from tests.support import check

RANDOM = np.random.default_rng(8)
MOST = (4, 8, 10)


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.integers(-4, 5, shape).astype(np.float32)


def sum_of_32() -> Node:
    """One result and 32 operands, each with a factor of its own."""
    total = None
    for number in range(32):
        term = graph.binary("mul", leaf(numbers(5, 7)), graph.const(number, dt.float32, (5, 7)))
        total = term if total is None else graph.binary("add", total, term)
    return total


def concat_of_40() -> Node:
    parts = [graph.pad(leaf(numbers(3)), ((3 * n, 3 * (39 - n)),)) for n in range(40)]
    total = parts[0]
    for other in parts[1:]:
        total = graph.binary("add", total, other)
    return total


def product_of_sums() -> Node:
    """The operands of a contraction have six inputs each."""
    a, b = (
        graph.binary("add", graph.binary("add", *(leaf(numbers(*shape)) for _ in range(2))),
                     graph.binary("mul", *(leaf(numbers(*shape)) for _ in range(2))))
        for shape in ((8, 33), (33, 9))
    )  # fmt: skip
    more = [graph.binary("max", x, leaf(numbers(*x.shape))) for x in (a, b)]
    return graph.binary("add", matmul(*more), leaf(numbers(8, 9)))


def gather_along_six_axes() -> Node:
    shape = (2, 3, 2, 3, 2, 3)
    places = [leaf(RANDOM.integers(-1, n + 1, 20).astype(np.int64)) for n in shape]
    return graph.gather(leaf(numbers(*shape)), places)


KINDS = {
    kind.__name__: kind
    for kind in (sum_of_32, concat_of_40, product_of_sums, gather_along_six_axes)
}


def planned(root: Node, target: Target) -> tuple[Plan, list[np.ndarray]]:
    key, leaves = signature([root])
    return plan(rebuild(key).roots, target), leaves


def run(root: Node, most: int | None) -> np.ndarray:
    """The root's elements from kernels that each name at most so many buffers."""
    found, leaves = planned(root, Target(16, max_params=most))
    values = [array.reshape(-1) for array in leaves]
    values += [np.full(nbytes, 0xAB, np.uint8) for nbytes in found.nbytes]
    for step in found.steps:
        check(most is None or len(step.kernel.params) <= most, f"{step.kernel.params}")
        pairs = zip(step.kernel.params, step.values, strict=True)
        Interpreter(
            step.kernel, {ref: values[value].view(ref.dtype.storage) for ref, value in pairs}
        ).run()
    return values[found.roots[0]].view(root.dtype.storage).reshape(root.shape)


@pytest.mark.parametrize("most", MOST)
@pytest.mark.parametrize("name", KINDS)
def test_a_graph_with_many_operands(name: str, most: int) -> None:
    """All elements are small whole numbers, so that sums are exact in any order."""
    root = KINDS[name]()
    np.testing.assert_array_equal(run(root, most), oracle.evaluate(root))


def test_one_kernel_where_the_device_takes_it() -> None:
    check(len(planned(sum_of_32(), Target(16))[0].steps[0].kernel.params) == 33, "33 parameters")
    counts = [len(planned(sum_of_32(), Target(16, max_params=n))[0].steps) for n in (33, 32, 8, 4)]
    check(counts[0] == 1 and counts == sorted(counts), f"{counts}")
    check(counts[2] <= 7, f"{counts}: with 8 buffers, seven inputs a kernel and one result")


@pytest.mark.parametrize("seed", range(part(60, 15)))
def test_random_graphs(seed: int) -> None:
    """On the CPU and on a GPU without known waves, with the fewest buffers there can be."""
    values = Maker(seed).roots(14)
    for value in values:
        for gpu in (None, replace(GPUS["webgpu"], max_groups=None)):
            for most in (4, 8):
                steps = planned(value.node, Target(16, UNITS, gpu=gpu, max_params=most))[0].steps
                found = [len(step.kernel.params) for step in steps]
                check(max(found, default=0) <= most, f"{found} of {most}")


def test_what_has_no_place_to_be_cut() -> None:
    """A result and two operands, on a device that takes two buffers."""
    root = graph.binary("add", leaf(numbers(5)), leaf(numbers(5)))
    with pytest.raises(Unsupported, match="needs 3 buffers, and the device takes 2"):
        planned(root, Target(16, max_params=2))


@pytest.mark.parametrize("over", [0, 1])
def test_positions_of_devices_without_int64(over: int) -> None:
    """2^31 elements have positions that int32 holds; one more has not."""
    one = graph.const(1, dt.int8, ((1 << 31) + over,))
    names = frozenset({"int8", "int32"})
    target = Target(16, dtypes=names)
    root = graph.contiguous(one)
    if over:
        with pytest.raises(Unsupported, match="int64"):
            planned(root, target)
    else:
        check(planned(root, target)[0].nbytes[0] == 1 << 31, "one kernel")
