"""Whole kernels on the executor: loops, LDS, barriers, atomics, WMMA, scratch, lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from boards.amd.isa.families import FAMILIES
from boards.amd.wave.types import Report
from tests.boards import isa_programs as programs
from tests.boards.wave_harness import CHIPS, launch
from tests.support import check

WAVE64 = "-wavefrontsize32,+wavefrontsize64"


def _clean(report: Report) -> None:
    check(not report.violations, "\n".join(map(str, report.violations)))


@pytest.mark.parametrize(
    ("ir", "groups", "items"),
    [(programs.NAIVE, (1, 64), 64), (programs.TILED, (4, 4), 256)],
    ids=["naive", "tiled"],
)
@pytest.mark.parametrize(
    ("cpu", "wave"), [(cpu, wave) for cpu in CHIPS for wave in FAMILIES[cpu].lane_counts]
)
def test_matmul(ir: str, groups: tuple[int, int], items: int, cpu: str, wave: int) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    features = "" if wave == FAMILIES[cpu].lane_counts[0] else WAVE64
    report = launch(ir, [a, b, c, 64], (*groups, 1), (items, 1, 1), cpu=cpu, features=features)
    _clean(report)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=0, atol=2e-5)


@pytest.mark.parametrize("cpu", CHIPS)
def test_reduction_tree(cpu: str) -> None:
    a = np.random.default_rng(2).integers(-50, 50, (24, 256)).astype(np.float32)
    c = np.zeros(24, np.float32)
    _clean(launch(programs.REDUCE, [a, c], (24, 1, 1), (256, 1, 1), cpu=cpu))
    np.testing.assert_array_equal(c, a.sum(axis=1))


@pytest.mark.parametrize("cpu", CHIPS)
def test_divergent_loops(cpu: str) -> None:
    out = np.zeros(640, np.int32)
    _clean(launch(programs.COLLATZ, [out], (10, 1, 1), (64, 1, 1), cpu=cpu))
    expected = []
    for start in range(1, 641):
        n, steps = start, 0
        for _ in range(1000):
            if n == 1:
                break
            n, steps = (3 * n + 1 if n & 1 else n // 2), steps + 1
        expected.append(steps)
    np.testing.assert_array_equal(out, expected)


def _spread(matrix: np.ndarray) -> np.ndarray:
    """A 16x16 accumulator as lanes hold it: (32 lanes, 8 registers)."""
    lanes = np.arange(32)
    return np.stack([matrix[2 * i + lanes // 16, lanes % 16] for i in range(8)], axis=1)


def test_wmma_f16() -> None:
    rng = np.random.default_rng(3)
    a, bt = (rng.standard_normal((16, 16)).astype(np.float16) for _ in range(2))
    c = rng.standard_normal((16, 16)).astype(np.float32)
    memory = np.ascontiguousarray(_spread(c))
    _clean(launch(programs.WMMA_F16, [a, bt, memory]))
    expected = a.astype(np.float64) @ bt.astype(np.float64).T + c
    np.testing.assert_allclose(memory, _spread(expected), rtol=1e-6, atol=1e-6)


def test_wmma_bf16() -> None:
    rng = np.random.default_rng(4)
    raw = rng.standard_normal((2, 16, 16)).astype(np.float32).view(np.uint32) & 0xFFFF0000
    wide = raw.view(np.float32).astype(np.float64)
    a, bt = (np.ascontiguousarray(m >> 16).astype(np.uint16) for m in raw)
    c = rng.standard_normal((16, 16)).astype(np.float32)
    memory = np.ascontiguousarray(_spread(c))
    _clean(launch(programs.WMMA_BF16, [a, bt, memory]))
    np.testing.assert_allclose(memory, _spread(wide[0] @ wide[1].T + c), rtol=1e-6, atol=1e-6)


def test_wmma_iu8() -> None:
    rng = np.random.default_rng(5)
    a, bt = rng.integers(-128, 128, (2, 16, 16)).astype(np.int8)
    c = rng.integers(-1000, 1000, (16, 16)).astype(np.int32)
    memory = np.ascontiguousarray(_spread(c))
    _clean(launch(programs.WMMA_IU8, [a, bt, memory]))
    np.testing.assert_array_equal(memory, _spread(a.astype(np.int32) @ bt.astype(np.int32).T + c))


@pytest.mark.parametrize(
    ("action", "kind", "dtype", "reduce"),
    [
        ("add", "i32", np.int32, np.sum), ("max", "i32", np.int32, np.max),
        ("umin", "i32", np.uint32, np.min), ("xor", "i32", np.int32, np.bitwise_xor.reduce),
        ("or", "i64", np.int64, np.bitwise_or.reduce), ("add", "i64", np.int64, np.sum),
        ("umax", "i64", np.uint64, np.max), ("fadd", "float", np.float32, np.sum),
    ],
)  # fmt: skip
@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("cpu", CHIPS)
def test_atomics(cpu: str, action: str, kind: str, dtype: Any, reduce: Any, returns: bool) -> None:
    rng = np.random.default_rng(6)
    a = rng.integers(0, 1000, 256).astype(dtype)
    start = 10**6 if action == "umin" else 0
    c, old = np.full(8, start, dtype), np.zeros(256, dtype)
    ir = programs.atomic(action, kind, returns=returns)
    _clean(launch(ir, [a, c, old], (4, 1, 1), (64, 1, 1), cpu=cpu))
    by_slot = a.reshape(32, 8)
    np.testing.assert_array_equal(c, [reduce(by_slot[:, i]) for i in range(8)])
    if returns and action in ("add", "fadd"):
        for slot in range(
            8
        ):  # each old value plus what was added is another's old value, or the end
            after = np.sort(old.reshape(32, 8)[:, slot] + by_slot[:, slot])
            expected = np.sort(np.append(old.reshape(32, 8)[:, slot][1:], c[slot]))
            np.testing.assert_array_equal(after, np.sort(expected))


@pytest.mark.parametrize("cpu", CHIPS)
def test_atomics_in_lds(cpu: str) -> None:
    a = np.random.default_rng(7).integers(0, 1 << 30, 256).astype(np.int32)
    c = np.zeros(16, np.int32)
    _clean(launch(programs.LDS_HISTOGRAM, [a, c], (1, 1, 1), (256, 1, 1), cpu=cpu))
    np.testing.assert_array_equal(c, np.bincount(a & 15, minlength=16))


@pytest.mark.parametrize("cpu", CHIPS)
def test_scratch(cpu: str) -> None:
    a = np.random.default_rng(8).integers(0, 1 << 30, 640).astype(np.int32)
    c = np.zeros(640, np.int32)
    _clean(launch(programs.SCRATCH, [a, c], (10, 1, 1), (64, 1, 1), cpu=cpu))
    np.testing.assert_array_equal(c, (a & 31) * np.arange(640))


@pytest.mark.parametrize("cpu", CHIPS)
def test_generic_pointers(cpu: str) -> None:
    a = np.random.default_rng(10).integers(0, 1 << 20, 64).astype(np.int32)
    before, c = a.copy(), np.zeros(64, np.int32)
    _clean(launch(programs.GENERIC, [a, c], (1, 1, 1), (64, 1, 1), cpu=cpu))
    which = np.arange(64) & 3
    np.testing.assert_array_equal(c, np.where(which & 1, before, 3 * before) + 5)
    np.testing.assert_array_equal(a, np.where(which == 1, before + 5, before))


@pytest.mark.parametrize("cpu", CHIPS)
@pytest.mark.parametrize(("i", "j"), [(0, 7), (5, 5), (3, 2)])
def test_registers_indexed_at_run_time(cpu: str, i: int, j: int) -> None:
    a = np.random.default_rng(11).integers(0, 1 << 20, (32, 8)).astype(np.int32)
    c, out = np.zeros((32, 8), np.int32), np.zeros(32, np.int32)
    _clean(launch(programs.RELATIVE, [a, c, out, i, j], cpu=cpu))
    expected = a.copy()
    expected[:, i] = np.arange(32)
    np.testing.assert_array_equal(c, expected)
    np.testing.assert_array_equal(out, expected[:, j])


def test_lanes_read_each_other() -> None:
    a = np.random.default_rng(9).integers(0, 1 << 30, 32).astype(np.int32)
    c = np.zeros((32, 8), np.int32)
    _clean(launch(programs.SHUFFLE, [a, c]))
    lane = np.arange(32)
    row, column = lane & ~15, lane & 15
    np.testing.assert_array_equal(c[:, 0], np.where(column > 0, a[lane - 1], 0))
    np.testing.assert_array_equal(c[:, 1], a[lane ^ 1])
    np.testing.assert_array_equal(c[:, 2], a[31 - lane])
    np.testing.assert_array_equal(c[:, 3], a[5])
    np.testing.assert_array_equal(c[:, 4], a[0])
    selectors = 0x76543210 | (-19088744 & 0xFFFFFFFF) << 32
    picks = np.array([selectors >> 4 * i & 15 for i in range(16)])
    np.testing.assert_array_equal(c[:, 5], a[(row ^ 16) + picks[column]])
    octet = np.array([6053444 >> 3 * i & 7 for i in range(8)])
    np.testing.assert_array_equal(c[:, 6], a[(lane & ~7) + octet[lane & 7]])
