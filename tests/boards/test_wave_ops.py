"""What a wave's lanes know of each other: ballot, below and among, and a wave's barrier, alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from boards.amd.wave.types import Strict
from compilers import dtype as dt
from compilers import expr as ex
from compilers import index as ix
from compilers import toolchains
from compilers.index import Var
from compilers.ir import Barrier, Expr, Kernel, Loop, Ref, Store
from tests.amd_toolbox import needs_comgr
from tests.boards.kernel_runner import TARGETS
from tests.boards.kernel_runner import run as launch
from tests.gpu_interpreter import GpuInterpreter
from tests.support import check

Array = np.ndarray[Any, Any]
WAYS = [*((arch, "LLVM") for arch in TARGETS), pytest.param("gfx1030", "HIP", marks=needs_comgr)]
BLOCK = 128


def kernel(wave: int) -> Kernel:
    """Of lanes whose element is not 0: the ballot, how many are before each lane, and how many
    there are; and the element of the next lane of the wave, through shared memory."""
    word = dt.uint32 if wave == 32 else dt.uint64
    x = Ref("x", dt.int32, BLOCK, "global", 0)
    votes, below, among, following = (
        Ref(name, kind, BLOCK, "global", slot)
        for slot, (name, kind) in enumerate(
            [("votes", word), ("below", dt.int32), ("among", dt.int32), ("next", dt.int32)], 1
        )
    )
    shared, lane = Ref("shared", dt.int32, BLOCK, "shared"), Var("lane", BLOCK)
    at = ix.var(lane)
    value = ex.load(x, at)
    ballot = Expr("ballot", word, (Expr("ne", dt.bool_, (value, ex.const(0, dt.int32))),))
    neighbour = at // wave * wave + (at % wave + 1) % wave
    body = (
        Store(votes, at, ballot),
        Store(below, at, Expr("below", dt.int32, (ballot,))),
        Store(among, at, Expr("among", dt.int32, (ballot,))),
        Store(shared, at, value),
        Barrier(wave=True),
        Store(following, at, ex.load(shared, neighbour)),
    )
    grid = Loop(Var("g", 1), "grid", (Loop(lane, "lane", body),))
    return Kernel("wave_ops", (x, votes, below, among, following), (shared,), grid, BLOCK)


def operands(wave: int) -> tuple[list[Array], list[Array]]:
    """Arguments, and what they become: by counting."""
    x = np.random.default_rng(1).integers(0, 2, BLOCK).astype(np.int32)
    x[: wave // 2], x[-wave:] = 1, 0
    waves = (x != 0).reshape(-1, wave)
    words = [sum(int(bit) << lane for lane, bit in enumerate(row)) for row in waves]
    kind = np.uint32 if wave == 32 else np.uint64
    wanted = [x, np.repeat(np.array(words, kind), wave),
              (waves.cumsum(1) - waves).reshape(-1).astype(np.int32),
              np.repeat(waves.sum(1), wave).astype(np.int32),
              np.roll(x.reshape(-1, wave), -1, 1).reshape(-1)]  # fmt: skip
    given = [x.copy(), *(np.full_like(array, 77) for array in wanted[1:])]
    return given, wanted


@pytest.mark.parametrize(("arch", "compiler"), WAYS)
def test_on_boards(arch: str, compiler: str) -> None:
    wave = TARGETS[arch].wave_lanes
    given, wanted = operands(wave)
    binary = toolchains.build(kernel(wave), compiler, arch, frozenset())
    report = launch(binary, given, 1, Strict())
    check(not report.violations, f"{[str(violation) for violation in report.violations[:3]]}")
    for found, want in zip(given, wanted, strict=True):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("wave", [32, 64])
def test_in_the_interpreter(wave: int) -> None:
    made = kernel(wave)
    given, wanted = operands(wave)
    GpuInterpreter(made, dict(zip(made.params, given, strict=True)), wave).run()
    for found, want in zip(given, wanted, strict=True):
        np.testing.assert_array_equal(found, want)
