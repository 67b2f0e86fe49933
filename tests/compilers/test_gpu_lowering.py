"""Scans, sorts and transpositions for a GPU in the IR interpreter: no renderer, no instructions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compilers import dtype as dt
from compilers import expr as ex
from compilers import graph
from compilers import index as ix
from compilers.gpu_target import GpuTarget
from compilers.graph import Node
from compilers.index import Var
from compilers.ir import Barrier, Expr, If, Kernel, Loop, Ref, Store
from compilers.lower.choose import Target
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from tests.compilers.lowering import leaf
from tests.gpu_interpreter import GpuInterpreter

Array = np.ndarray[Any, Any]
WAVES = [32, 64]
UNITS = 4
"""Compute units: few, so that little work is split and tiled."""


def interpret(root: Node, wave: int) -> Array:
    """The root's elements; outputs start as garbage."""
    key, leaves = signature([root])
    gpu = GpuTarget(max_block=1024, shared_bytes=64 << 10, wave_lanes=wave, swaps=True)
    found = plan(rebuild(key).roots, Target(16, UNITS, gpu=gpu))
    values = [array.reshape(-1) for array in leaves]
    values += [np.full(nbytes, 0xAB, np.uint8) for nbytes in found.nbytes]
    for step in found.steps:
        pairs = zip(step.kernel.params, step.values, strict=True)
        arrays = {ref: values[value].view(ref.dtype.storage) for ref, value in pairs}
        GpuInterpreter(step.kernel, arrays, wave).run()
    return values[found.roots[0]].view(root.dtype.storage).reshape(root.shape)


@pytest.mark.parametrize("wave", WAVES)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((9,), 0), ((3, 70), 1), ((2, 700), 1), ((10_000,), 0), ((300, 9), 0), ((2, 300, 3), 1)],
)
def test_scans(shape: tuple[int, ...], axis: int, wave: int) -> None:
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(np.float32)
    found = interpret(graph.scan("add", leaf(x), axis), wave)
    np.testing.assert_array_equal(found, x.cumsum(axis))


@pytest.mark.parametrize("wave", WAVES)
@pytest.mark.parametrize("length", [65, 300, 2048, 2100])
def test_sorts(length: int, wave: int) -> None:
    x = np.random.default_rng(2).integers(-99, 99, length).astype(np.int8)
    found = interpret(graph.argsort(leaf(x), 0, False), wave)
    np.testing.assert_array_equal(found, np.argsort(x, kind="stable"))


@pytest.mark.parametrize("wave", WAVES)
@pytest.mark.parametrize("shape", [(128, 64), (70, 100), (2, 40, 50)])
def test_transpositions(shape: tuple[int, ...], wave: int) -> None:
    x = np.random.default_rng(3).integers(-99, 99, shape).astype(np.float32)
    axes = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    found = interpret(graph.unary("neg", graph.permute(leaf(x), axes)), wave)
    np.testing.assert_array_equal(found, -x.transpose(axes))


def test_barriers_and_ballots_that_some_lanes_do_not_reach() -> None:
    out, lane = Ref("out", dt.int32, 32, "global"), Var("lane", 32)
    some = ((ix.var(lane), 0, 5),)
    for stmt in (
        Barrier(),
        Store(out, ix.var(lane), Expr("below", dt.int32, (
            Expr("ballot", dt.uint32, (ex.const(True, dt.bool_),)),))),
    ):  # fmt: skip
        grid = Loop(Var("g", 1), "grid", (Loop(lane, "lane", (If(some, (stmt,)),)),))
        kernel = Kernel("k", (out,), (), grid, 32)
        with pytest.raises(ValueError, match="some lanes do not reach"):
            GpuInterpreter(kernel, {out: np.zeros(32, np.int32)}, 32).run()
