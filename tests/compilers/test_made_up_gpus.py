"""Every kind of kernel for GPUs with small workgroups, little shared memory, no known waves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compilers import dtype as dt
from compilers import graph
from compilers.gpu_target import TEAM_SHARED_BYTES, GpuTarget
from compilers.graph import Node
from compilers.lower.choose import Target
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from drivers.base.errors import Unsupported
from tests.compilers.lowering import leaf, matmul, rows, softmax
from tests.compilers.made_up_gpus import GPUS, Array, interpret, planned
from tests.support import check

RANDOM = np.random.default_rng(5)


def whole(*shape: int, dtype: str = "float32") -> Array:
    """Small whole numbers: sums and products of them are exact in any order."""
    return RANDOM.integers(-4, 5, shape).astype(dtype)


def normed(x: Node) -> Node:
    """x less its mean, by its second moment: two reductions in one kernel."""
    mean = graph.binary("mul", rows(x, "add"), graph.const(1 / 64, dt.float32, x.shape))
    apart = graph.binary("sub", x, mean)
    return graph.binary("add", apart, rows(graph.binary("mul", apart, apart), "add"))


def _norm(x: Array) -> Array:
    apart = x - x.sum(-1, keepdims=True) / 64
    return apart + (apart * apart).sum(-1, keepdims=True)


def halves(x: Array) -> Node:
    return graph.cast(leaf(x.astype(np.float16)), dt.float32)


Made = tuple[Node, Array]
KINDS: dict[str, Callable[[], Made]] = {}


def kind(make: Callable[[], Made]) -> Callable[[], Made]:
    KINDS[make.__name__] = make
    return make


@kind
def elementwise() -> Made:
    x, y = whole(3, 131), whole(3, 131)
    return graph.binary("mul", leaf(x), leaf(y)), x * y


@kind
def short_rows() -> Made:
    x = whole(70, 5)
    return graph.reduce("add", leaf(x), (1,)), x.sum(1)


@kind
def long_rows() -> Made:
    x = whole(3, 2100)
    return graph.reduce("max", leaf(x), (1,)), x.max(1)


@kind
def one_sum() -> Made:
    x = whole(20_000)
    return graph.reduce("add", leaf(x), (0,)), x.sum()


@kind
def sums_of_doubles() -> Made:
    x = whole(5, 700, dtype="float64")
    return graph.reduce("add", leaf(x), (1,)), x.sum(1)


@kind
def columns() -> Made:
    x = whole(200, 70)
    return graph.reduce("add", leaf(x), (0,)), x.sum(0)


@kind
def wide_columns() -> Made:
    x = whole(9, 600, dtype="int16")
    return graph.reduce("min", leaf(x), (0,)), x.min(0)


@kind
def several_reductions() -> Made:
    x = 64 * whole(6, 64)
    return normed(leaf(x)), _norm(x)


@kind
def large_product() -> Made:
    a, b = whole(130, 20), whole(20, 140)
    return matmul(leaf(a), leaf(b)), a @ b


@kind
def product_of_doubles() -> Made:
    a, b = whole(70, 33, dtype="float64"), whole(33, 65, dtype="float64")
    return matmul(leaf(a), leaf(b)), a @ b


@kind
def product_of_halves() -> Made:
    a, b = whole(40, 48), whole(48, 33)
    return matmul(halves(a), halves(b)), a @ b


@kind
def one_row_by_a_matrix() -> Made:
    a, b = whole(1, 300), whole(300, 64)
    return matmul(leaf(a), leaf(b)), a @ b


@kind
def a_few_rows_by_a_transposed_matrix() -> Made:
    a, b = whole(3, 200), whole(96, 200)
    return matmul(leaf(a), graph.permute(leaf(b), (1, 0))), a @ b.T


@kind
def transposition() -> Made:
    x = whole(130, 70)
    return graph.unary("neg", graph.permute(leaf(x), (1, 0))), -x.T


@kind
def scan_of_a_long_row() -> Made:
    x = whole(9000)
    return graph.scan("add", leaf(x), 0), x.cumsum()


@kind
def scan_of_short_rows() -> Made:
    x = whole(20, 37, dtype="int32")
    return graph.scan("max", leaf(x), 1), np.maximum.accumulate(x, 1)


@kind
def scan_down_the_columns() -> Made:
    x = whole(300, 9)
    return graph.scan("add", leaf(x), 0), x.cumsum(0)


@kind
def sort_of_a_long_row() -> Made:
    x = RANDOM.integers(-99, 99, (2, 300)).astype(np.int8)
    return graph.argsort(leaf(x), 1, False), np.argsort(x, axis=1, kind="stable")


@kind
def sort_of_columns() -> Made:
    x = whole(20, 6)
    return graph.argsort(leaf(x), 0, False), np.argsort(x, axis=0, kind="stable")


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_kernel(name: str, gpu: str) -> None:
    root, want = KINDS[name]()
    np.testing.assert_array_equal(interpret(root, GPUS[gpu]), want)


@pytest.mark.parametrize("gpu", GPUS)
def test_softmax(gpu: str) -> None:
    x = RANDOM.normal(size=(3, 500)).astype(np.float32)
    powers = np.exp(x - x.max(1, keepdims=True))
    want = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(interpret(softmax(leaf(x)), GPUS[gpu]), want, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "float32", "int64", "float64"])
@pytest.mark.parametrize("length", [300, 2048, 9000])
def test_what_sorts_by_waves_share_is_what_teams_ask_for(length: int, dtype: str) -> None:
    """`TEAM_SHARED_BYTES`, and no kernel of a sort or a scan is larger."""
    gpu = GpuTarget(max_block=256, shared_bytes=TEAM_SHARED_BYTES, wave_lanes=32, swaps=True)
    check(gpu.teams, "just enough")
    x = leaf(np.zeros(length, dtype))
    for root in (graph.argsort(x, 0, False), graph.scan("add", x, 0)):
        for step in planned(root, gpu)[0].steps:
            check(gpu.fits(step.kernel), f"{step.kernel.name}: {step.kernel.shared_bytes}")


def test_what_fits_no_workgroup_is_refused() -> None:
    gpu = GpuTarget(max_block=64, shared_bytes=4)
    root = graph.reduce("add", leaf(np.zeros((2, 5000), np.float32)), (1,))
    key, _ = signature([root])
    with pytest.raises(Unsupported, match="64 lanes and 4 bytes of shared memory"):
        plan(rebuild(key).roots, Target(16, 4, gpu=gpu))


def test_sorts_that_would_take_too_long_are_refused() -> None:
    root = graph.argsort(leaf(np.zeros(1 << 17, np.float32)), 0, False)
    with pytest.raises(Unsupported, match="131072 elements"):
        planned(root, GPUS["webgpu"])
    check(planned(root, GPUS["nvidia"])[0].steps != (), "where lanes exchange values it is made")
