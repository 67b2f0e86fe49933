"""Products whose operands are copied ahead, run lane by lane as C++ (cuda_shim.h), against numpy.

Copies land as late as they may, and products of warpgroups happen at once; then the other way:
a wait that is missing shows in one, a stage that is overwritten too soon in the other.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compilers import dtype as dt
from compilers import graph
from compilers.graph import Node
from compilers.lower.choose import Target
from compilers.nv import cuda_matrix
from compilers.nv.family import FAMILY
from compilers.nv.matrix_forms import ROUNDED
from drivers.base.contracts import Limits
from tests.compilers.lowering import matmul
from tests.compilers.test_made_up_gpus import halves, whole
from tests.compilers.test_nv_cuda_lanes import Program, brains
from tests.share import part
from tests.support import check

Array = np.ndarray[Any, Any]
SMALL_TILE_UNITS = 64
"""Multiprocessors that leave the products here to small tiles."""
EARLY = ("-DEARLY=0", "-DEARLY=1")
early = pytest.mark.parametrize("when", EARLY[: part(2, 1)], ids=["late", "early"][: part(2, 1)])


def smaller(target: Target) -> Target:
    """With small tiles."""
    return replace(target, threads=SMALL_TILE_UNITS)


def rounding(target: Target) -> Target:
    """With tf32, as a device that has the feature gets it."""
    if target.gpu is None:
        raise ValueError("no GPU")
    limits = Limits(dtypes=frozenset(), memory_bytes=0, features=frozenset({ROUNDED}))
    return replace(smaller(target), gpu=FAMILY.offered(target.gpu, limits))


def turned(x: Node) -> Node:
    return graph.permute(x, (1, 0))


def of(make: Any, x: Array, *, across: bool) -> Node:
    """The matrix, stored with its other axis contiguous if asked to."""
    return turned(make(np.ascontiguousarray(x.T))) if across else make(x)


def leaf(x: Array) -> Node:
    return graph.buffer(x, dt.BY_NAME[x.dtype.name], x.shape)


def int32s(x: Array) -> Node:
    return graph.cast(leaf(x), dt.int32)


def used(program: Program, *phrases: str) -> None:
    """Every kernel has the phrases."""
    kernels = [text for text in program.parts if text.startswith("namespace")]
    for phrase in phrases:
        check(all(phrase in text for text in kernels), f"{phrase} in each of {len(kernels)}")


@early
@pytest.mark.parametrize("arch", ["sm_86", "sm_90a"])
def test_halves_in_any_order(arch: str, when: str, tmp_path: Path) -> None:
    """A and B with k contiguous or not; sizes that are no multiple of a tile."""
    program = Program(arch, offered=smaller)
    for number, (m, n, k) in enumerate([(40, 72, 80), (64, 64, 32), (16, 80, 200), (72, 40, 64)]):
        a, b = whole(m, k), whole(k, n)
        make = (halves, brains)[number % 2]
        a_node, b_node = of(make, a, across=number in (1, 3)), of(make, b, across=number in (2, 3))
        program.add(matmul(a_node, b_node), a @ b)
    used(program, "copies_close", "shim_wgmma" if arch == "sm_90a" else "shim_gather")
    program.check(tmp_path, when)


@early
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_large_tile(arch: str, when: str, tmp_path: Path) -> None:
    """With more than 48 KiB of shared memory, and as many steps as go round all stages."""
    program = Program(arch)
    m, n, k = (136, 264, 512) if arch == "sm_90a" else (136, 136, 160)
    a, b = whole(m, k), whole(k, n)
    total = matmul(halves(a), halves(b))
    program.add(graph.cast(total, dt.float16), (a @ b).astype(np.float16))
    used(program, "dynamic[")
    program.check(tmp_path, when)


@early
@pytest.mark.parametrize("arch", ["sm_86", "sm_90a"])
def test_bytes(arch: str, when: str, tmp_path: Path) -> None:
    """Sums of int32, and of the bytes themselves, which wrap; those of uint8."""
    program = Program(arch, offered=smaller)
    draw = np.random.default_rng(3)
    for dtype, make in ((np.int8, int32s), (np.int8, leaf), (np.uint8, leaf), (np.uint8, int32s)):
        info = np.iinfo(dtype)
        a = draw.integers(info.min, info.max, (48, 160), dtype, endpoint=True)
        b = draw.integers(info.min, info.max, (160, 40), dtype, endpoint=True)
        want = a.astype(np.int32) @ b.astype(np.int32)
        root = matmul(make(a), of(make, b, across=True))
        program.add(root, want.astype(root.dtype.storage))
    used(program, "copies_close", "shim_wgmma" if arch == "sm_90a" else "shim_mma<32, ")
    program.check(tmp_path, when)


def test_bytes_that_are_transposed_on_the_way(tmp_path: Path) -> None:
    """Where k is not contiguous, and where rows are not aligned: through registers."""
    program = Program("sm_86", offered=smaller)
    for m, n, k in ((48, 40, 64), (33, 35, 41)):
        a, b = whole(m, k).astype(np.int8), whole(k, n).astype(np.int8)
        program.add(matmul(int32s(a), int32s(b)), a.astype(np.int32) @ b.astype(np.int32))
    used(program, "shim_mma<32, Short>")
    program.check(tmp_path)


@early
def test_float32_by_tf32(when: str, tmp_path: Path) -> None:
    """Operands are rounded to 11 bits, ties away from zero: 2049 counts as 2050."""
    program = Program("sm_86", offered=rounding)
    a, b = whole(40, 64), whole(64, 48)
    odd = a.copy()
    odd[::2] = 2049
    counted = np.where(odd == 2049, np.float32(2050), odd)
    program.add(matmul(leaf(a), of(leaf, b, across=True)), a @ b)
    program.add(matmul(leaf(odd), of(leaf, b, across=True)), counted @ b)
    program.add(matmul(leaf(odd), leaf(b)), counted @ b)
    used(program, "shim_mma<8, Tensor>")
    program.check(tmp_path, when)


def test_float32_stays_float32_unless_asked() -> None:
    program = Program("sm_86", offered=smaller)
    a, b = whole(40, 64), whole(64, 48)
    program.add(matmul(leaf(a), leaf(b)), a @ b)
    check("mma" not in program.parts[-2], "no matrix unit")


def test_descriptors_have_offsets_without_their_low_bits() -> None:
    """# src: PTX ISA, "Matrix Descriptor Format": 0x80 bytes leading, 0x210 stride"""
    word = cuda_matrix.descriptor_strides(0x80, 0x210)
    check(word == (0x8 << 16 | 0x21 << 32), f"{word:#x}")
