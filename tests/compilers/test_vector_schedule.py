"""A CPU behind a GPU's interface: workgroups of one lane with wide vectors."""

from __future__ import annotations

import numpy as np
import pytest

from compilers import dtype as dt
from compilers import graph
from compilers.gpu_target import GpuTarget
from compilers.graph import Node
from compilers.ir import Kernel, Loop, Stmt
from compilers.lower.choose import Target
from compilers.plan.schedule import Plan, plan
from compilers.plan.signature import rebuild, signature
from tests.compilers.lowering import leaf, matmul, softmax
from tests.compilers.made_up_gpus import StrictInterpreter
from tests.compilers.test_made_up_gpus import KINDS, Made, halves, whole
from tests.ir_interpreter import Interpreter
from tests.support import check

# src: PoCL 3.1 on a CPU with AVX2 reports 4096 lanes; CL_DEVICE_LOCAL_MEM_SIZE is a cache's size
CPU = GpuTarget(max_block=4096, shared_bytes=256 << 10, vectors=True)
SMALL = GpuTarget(max_block=4096, shared_bytes=8 << 10, vectors=True)
TINY = GpuTarget(max_block=4096, shared_bytes=1 << 10, vectors=True)
WIDTH_BYTES = 32


def planned(root: Node, gpu: GpuTarget) -> tuple[Plan, list[np.ndarray]]:
    key, leaves = signature([root])
    return plan(rebuild(key).roots, Target(WIDTH_BYTES, 4, frozenset({"fma"}), gpu=gpu)), leaves


def run(root: Node, gpu: GpuTarget) -> np.ndarray:
    found, leaves = planned(root, gpu)
    values = [array.reshape(-1) for array in leaves]
    values += [np.full(nbytes, 0xAB, np.uint8) for nbytes in found.nbytes]
    for step in found.steps:
        pairs = zip(step.kernel.params, step.values, strict=True)
        arrays = {ref: values[value].view(ref.dtype.storage) for ref, value in pairs}
        check(gpu.fits(step.kernel), f"{step.kernel.name}: {step.kernel.shared_bytes} bytes")
        if step.kernel.block == 1:  # vectors are arrays there, which is faster
            Interpreter(step.kernel, arrays).run()
        else:
            StrictInterpreter(step.kernel, arrays, gpu).run()
    return values[found.roots[0]].view(root.dtype.storage).reshape(root.shape)


def product() -> Made:
    a, b = whole(20, 24), whole(24, 33)
    return matmul(leaf(a), leaf(b)), a @ b


def product_of_halves() -> Made:
    a, b = whole(20, 24), whole(24, 33)
    total = graph.cast(matmul(halves(a), halves(b)), dt.float16)
    return total, (a @ b).astype(np.float16)


SIMPLE = ("elementwise", "short_rows", "long_rows", "columns", "several_reductions",
          "transposition", "scan_of_short_rows", "scan_down_the_columns", "sort_of_columns",
          "a_few_rows_by_a_transposed_matrix")  # fmt: skip
MADE = {name: KINDS[name] for name in SIMPLE} | {
    "product": product, "product of halves": product_of_halves
}  # fmt: skip


@pytest.mark.parametrize("gpu", [CPU, SMALL, TINY], ids=["256 KiB", "8 KiB", "1 KiB"])
@pytest.mark.parametrize("name", MADE)
def test_every_kind_of_kernel(name: str, gpu: GpuTarget) -> None:
    root, want = MADE[name]()
    np.testing.assert_array_equal(run(root, gpu), want)


def test_softmax() -> None:
    x = np.random.default_rng(4).normal(size=(3, 500)).astype(np.float32)
    powers = np.exp(x - x.max(1, keepdims=True))
    want = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(run(softmax(leaf(x)), CPU), want, rtol=1e-5)


def _vectors(body: tuple[Stmt, ...]) -> list[int]:
    """Extents of all vector loops."""
    loops = [stmt for stmt in body if isinstance(stmt, Loop)]
    inner = [width for stmt in body if hasattr(stmt, "body") for width in _vectors(stmt.body)]
    return [loop.extent for loop in loops if loop.kind == "vector"] + inner


def kernels(root: Node, gpu: GpuTarget = CPU) -> list[Kernel]:
    return [step.kernel for step in planned(root, gpu)[0].steps]


@pytest.mark.parametrize("name", ["elementwise", "product", "long_rows", "columns"])
def test_one_lane_has_a_cpus_vectors(name: str) -> None:
    root, _ = MADE[name]()
    for kernel in kernels(root):
        check(kernel.block == 1, f"{kernel.name}: workgroups of {kernel.block}")
        check(max(_vectors(kernel.body.body)) == WIDTH_BYTES // 4, f"{kernel.name}: whole vectors")
        check(not [ref for ref in kernel.locals if ref.space == "scratch"], "no scratch argument")


def test_a_products_operands_are_packed_in_shared_memory() -> None:
    ones = [leaf(np.ones((300, 300), np.float32)) for _ in range(2)]
    for gpu in (CPU, SMALL):
        (kernel,) = kernels(matmul(*ones), gpu)
        shared = [ref.name for ref in kernel.locals if ref.space == "shared"]
        check(shared == ["a_tile", "b_tile"] and gpu.fits(kernel), f"{kernel.shared_bytes} bytes")


def test_there_is_work_for_every_unit() -> None:
    """A sum of everything has a part for each, and elementwise work is in blocks of a cache."""
    total = kernels(graph.reduce("add", leaf(np.ones(1 << 21, np.float32)), (0,)))
    check([kernel.grid for kernel in total] == [64, 1], f"{[kernel.grid for kernel in total]}")
    (neg,) = kernels(graph.unary("neg", leaf(np.ones(1 << 21, np.float32))))
    check(neg.grid == 256, f"{neg.grid} blocks of 32 KiB")
