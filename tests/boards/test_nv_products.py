"""Products on matrix units, and shared memory beyond 48 KiB, as machine code on boards.

CUDA C by nvrtc and PTX by nvJitLink, through the driver; numpy's results, no violation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor as xp
from boards.nv.machine import open_nv_board
from compilers import dtype as dt
from compilers import graph, toolchains
from compilers.lower.choose import Target
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from drivers.world.foreign import ForeignWorld
from queues.nv.kernel_code import NvCode
from tensor import engine
from tests.boards.nv_harness import open_on
from tests.compilers.lowering import matmul
from tests.contract.arrays import get, put, ramp
from tests.contract.kernels import mirror
from tests.nv_cubins import needs_nvjitlink, needs_nvrtc
from tests.support import check

Array = np.ndarray[Any, Any]
WAYS = {"NVRTC": needs_nvrtc, "PTX": needs_nvjitlink}
ways = pytest.mark.parametrize("way", [pytest.param(n, marks=m) for n, m in WAYS.items()])
KIB = 1024
_DRAW = np.random.default_rng(5)


def whole(*shape: int, dtype: str = "float16") -> Array:
    """Whole numbers whose products and sums are exact in any order."""
    return _DRAW.integers(-4, 5, shape).astype(dtype)


def on_board(a: Array, b: Array, chip: str, way: str, *, turned: bool) -> Array:
    """a @ b, with b's k contiguous if `turned`."""
    board: Any = open_nv_board(chip)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEV", "NV")
        patch.setenv("NV_PTX", "1" if way == "PTX" else "0")
        with engine.on_machine(ForeignWorld(board)):
            right = xp.asarray(np.ascontiguousarray(b.T)).T if turned else xp.asarray(b)
            got: Array = xp.matmul(xp.asarray(a), right).numpy()
    check(not board.hardware.violations, str(board.hardware.violations[:3]))
    return got


chips = pytest.mark.parametrize("chip", ["tu102", "ga102", "gh100"])
"""HMMA through registers, with LDGSTS and LDSM, and HGMMA."""


@ways
@chips
@pytest.mark.parametrize("turned", [False, True], ids=["rows of B", "columns of B"])
@pytest.mark.parametrize("sizes", [(40, 72, 80), (136, 136, 160)], ids=str)
def test_halves(sizes: tuple[int, int, int], turned: bool, chip: str, way: str) -> None:
    """No multiples of a tile."""
    m, n, k = sizes
    a, b = whole(m, k), whole(k, n)
    want = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(on_board(a, b, chip, way, turned=turned), want.astype(np.float16))


@ways
def test_a_tile_of_49_kib(way: str) -> None:
    """The largest tile, which a device of one multiprocessor would have; both operands are in
    shared memory that the code does not declare."""
    a, b = whole(136, 160), whole(160, 136)
    nodes = (graph.cast(graph.buffer(x, dt.float16, x.shape), dt.float32) for x in (a, b))
    key, _ = signature([matmul(*nodes)])
    board: Any = open_nv_board("ga102")
    with open_on(board) as device:
        (step,) = plan(rebuild(key).roots, Target.gpu_of(device.arch, 1)).steps
        made = toolchains.build(step.kernel, way, device.arch, frozenset())
        dynamic = NvCode.of(made).dynamic_bytes
        check(dynamic == made.resources.shared_bytes > 48 * KIB, f"{made.resources}")
        out = device.alloc(4 * 136 * 136)
        given = [out, *(put(device, x.view(np.int32)) for x in (a, b))]
        device.launch(device.load(made), given, step.kernel.grid)
        found = get(device, out).view(np.float32).reshape(136, 136)
    np.testing.assert_array_equal(found, a.astype(np.float32) @ b.astype(np.float32))
    check(not board.hardware.violations, str(board.hardware.violations[:3]))


@ways
@chips
@pytest.mark.parametrize("turned", [False, True], ids=["rows of B", "columns of B"])
def test_bytes(turned: bool, chip: str, way: str) -> None:
    """IMMA, and IGMMA of gh100 where k is contiguous; tu102 has none of them here."""
    a, b = whole(40, 64, dtype="int8"), whole(64, 48, dtype="int8")
    want = a.astype(np.int32) @ b.astype(np.int32)
    np.testing.assert_array_equal(on_board(a, b, chip, way, turned=turned), want.astype(np.int8))


# src: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": most shared
# memory of a thread block
@ways
@pytest.mark.parametrize(("chip", "kib"), [("tu102", 64), ("ga102", 99), ("gh100", 227)])
def test_all_shared_memory_of_a_workgroup(chip: str, kib: int, way: str) -> None:
    board: Any = open_nv_board(chip)
    with open_on(board) as device:
        limits = device.limits
        check(limits.shared_bytes == kib * KIB, f"{limits.shared_bytes} bytes")
        made = toolchains.build(mirror(limits), way, device.arch, frozenset())
        check(made.resources.shared_bytes == limits.shared_bytes, f"{made.resources}")
        a, b = put(device, ramp(limits.max_block)), device.alloc(4 * limits.max_block)
        device.launch(device.load(made), [a, b], 1)
        np.testing.assert_array_equal(get(device, b), ramp(limits.max_block)[::-1])
    check(not board.hardware.violations, str(board.hardware.violations[:3]))


def _nearest_tf32(values: Array) -> Array:
    """With 10 bits of fraction, halves away from zero. src: PTX ISA, cvt.rna.tf32.f32"""
    return ((values.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)


@ways
@pytest.mark.parametrize("setting", ["0", "1"])
def test_products_of_singles_are_of_tf32_where_the_user_says_so(setting: str, way: str) -> None:
    a, b = (_DRAW.standard_normal((128, 128), np.float32) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NV_TF32", setting)
        got = on_board(a, b, "ga102", way, turned=False)
    exact = a.astype("f8") @ b.astype("f8")
    rounded = _nearest_tf32(a).astype("f8") @ _nearest_tf32(b).astype("f8")
    want, other = (rounded, exact) if setting == "1" else (exact, rounded)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-4)
    check(float(np.abs(got - other).max()) > 1e-3, "it makes no difference")
