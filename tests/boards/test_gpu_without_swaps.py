"""Kernels for a GPU without known waves, as machine code: every barrier is where it must be.

The lowering is told that the chip's waves are unknown and cannot swap, as WebGPU's are; the code
runs on the executor with its checks for races in shared memory on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from boards.amd.wave.types import Strict
from compilers import graph
from compilers.gpu_target import GpuTarget
from compilers.graph import Node
from compilers.ir import Barrier, If, Kernel, Loop, Stmt
from compilers.lower.choose import Target
from tests.boards.kernel_runner import TARGETS, Ran, compute
from tests.compilers.lowering import leaf, matmul, softmax
from tests.support import check

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(6)
ARCHES = ["gfx1100", "gfx942"]


def target(arch: str) -> Target:
    """The chip, of which little is known."""
    return replace(TARGETS[arch], gpu=GpuTarget(max_block=256, shared_bytes=16 << 10), threads=4)


def run(root: Node, arch: str) -> Array:
    ran = compute([root], arch, strict=Strict(), target=target(arch))
    check(not ran.violations, f"{[str(violation) for violation in ran.violations[:3]]}")
    return ran.arrays[0]


def whole(*shape: int, dtype: str = "float32") -> Array:
    return RANDOM.integers(-9, 9, shape).astype(dtype)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("shape", [(70, 5), (3, 4100), (1, 20_000), (5, 260)])
def test_sums_of_rows(shape: tuple[int, ...], arch: str) -> None:
    x = whole(*shape)
    np.testing.assert_array_equal(run(graph.reduce("add", leaf(x), (1,)), arch), x.sum(1))


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("dtype", ["int8", "float16", "float64"])
def test_largest_of_columns(dtype: str, arch: str) -> None:
    x = whole(200, 70, dtype=dtype)
    np.testing.assert_array_equal(run(graph.reduce("max", leaf(x), (0,)), arch), x.max(0))


@pytest.mark.parametrize("arch", ARCHES)
def test_two_reductions_share_memory(arch: str) -> None:
    x = RANDOM.normal(size=(3, 600)).astype(np.float32)
    powers = np.exp(x - x.max(1, keepdims=True))
    want = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(run(softmax(leaf(x)), arch), want, rtol=1e-5)


@pytest.mark.parametrize("arch", ARCHES)
def test_products_scans_and_sorts(arch: str) -> None:
    a, b, x = whole(66, 40), whole(40, 70), whole(3000)
    np.testing.assert_array_equal(run(matmul(leaf(a), leaf(b)), arch), a @ b)
    np.testing.assert_array_equal(run(graph.scan("add", leaf(x), 0), arch), x.cumsum())
    found = run(graph.argsort(leaf(x[:300]), 0, False), arch)
    np.testing.assert_array_equal(found, np.argsort(x[:300], kind="stable"))


def _without_barriers(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    kept = [stmt for stmt in body if not isinstance(stmt, Barrier)]
    return tuple(
        replace(stmt, body=_without_barriers(stmt.body)) if isinstance(stmt, Loop | If) else stmt
        for stmt in kept
    )


@pytest.mark.parametrize("arch", ARCHES)
def test_a_missing_barrier_is_found(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That the checks above can fail: the same sums without barriers are races."""
    from compilers.lower import choose as lower

    made = lower.lower_reduction

    def broken(*given: Any) -> Kernel:
        kernel = made(*given)
        (body,) = _without_barriers((kernel.body,))
        check(isinstance(body, Loop), "the grid")
        return replace(kernel, body=body)

    monkeypatch.setattr(lower, "lower_reduction", broken)
    root = graph.reduce("add", leaf(whole(3, 4100)), (1,))
    ran: Ran = compute([root], arch, strict=Strict(), target=target(arch))
    check(
        any("race" in str(violation).lower() for violation in ran.violations),
        f"{ran.violations[:3]}",
    )
