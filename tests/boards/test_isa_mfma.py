"""Every MFMA of gfx942 and gfx90a against numpy; layouts: AMD's matrix instruction calculator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from boards.amd.wave.types import WaveFault
from tests.boards.isa_mfma import SHAPES, SHAPES_90A, Mfma, accumulators, program
from tests.boards.wave_harness import launch
from tests.support import check

_LANES = 64
_RESULT: dict[str, Any] = {"f32": np.float32, "i32": np.int32, "f64": np.float64}


def _floats8(kind: str) -> np.ndarray:
    """What each code of an 8-bit float of gfx942 is, from the definition of E4M3 and E5M2 FNUZ."""
    bits, bias = (3, 8) if kind == "fp8" else (2, 16)
    values = []
    for code in range(256):
        exponent, fraction = (code & 127) >> bits, code & ((1 << bits) - 1)
        size = (fraction / (1 << bits) + (exponent > 0)) * 2.0 ** (max(exponent, 1) - bias)
        values.append(-size if code & 128 else size)
    values[128] = np.nan
    return np.array(values)


def _operand(kind: str, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Elements as memory holds them and as numbers."""
    if kind == "i8":
        raw = rng.integers(-128, 128, count).astype(np.int8)
        return raw, raw.astype(np.float64)
    if kind in ("fp8", "bf8"):
        raw = rng.integers(0, 120, count).astype(np.uint8) | rng.integers(0, 2, count).astype(
            np.uint8) << 7  # fmt: skip
        raw[raw == 128] = 0
        return raw, _floats8(kind)[raw]
    wide = rng.standard_normal(count)
    if kind == "bf16":
        bits = wide.astype(np.float32).view(np.uint32) >> 16
        return bits.astype(np.uint16), (bits << 16).astype(np.uint32).view(np.float32).astype(float)
    if kind == "xf32":
        bits = wide.astype(np.float32).view(np.uint32)
        return bits.view(np.float32), (bits & 0xFFFFE000).view(np.float32).astype(np.float64)
    raw = wide.astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind])
    return raw, raw.astype(np.float64)


def _input_place(shape: Mfma, row: int, k: int, block: int) -> tuple[int, int]:
    """Lane and number of A[row][k] (B[k][row]); "Matrix element to register mapping"."""
    per_lane = shape.per_lane
    lane = row + shape.m * block + shape.m * shape.blocks * (k // per_lane)
    return lane, k % per_lane


def _output_place(shape: Mfma, row: int, column: int, block: int) -> tuple[int, int]:
    """Lane and number of D[row][column], read off the calculator's equations by size."""
    if shape.d == "f64":
        if shape.m == 4:
            return 16 * (row % 4) + 4 * block + column, 0
        return 16 * (row % 4) + column, row // 4
    if shape.m == 32:
        return 32 * (row // 4 % 2) + column, 16 * block + 4 * (row // 8) + row % 4
    if shape.m == 16:
        return 16 * (row // 4) + column, 4 * block + row % 4
    return 4 * block + column, row % 4


def _expected(shape: Mfma, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """D as lanes hold it, by a loop over elements."""
    m, k = shape.m, shape.k
    left, right = np.zeros((2, shape.blocks, m, k))
    for block in range(shape.blocks):
        for row in range(m):
            for depth in range(k):
                place = _input_place(shape, row, depth, block)
                left[block, row, depth], right[block, row, depth] = a[place], b[place]
    result = c.copy()
    for block in range(shape.blocks):
        product = left[block] @ right[block].T
        for row in range(m):
            for column in range(m):
                place = _output_place(shape, row, column, block)
                result[place] = c[place] + product[row, column]
    return result


def _random(shape: Mfma) -> list[np.ndarray]:
    """A and B as memory holds them and as numbers, C."""
    rng = np.random.default_rng(len(shape.name))
    count = _LANES * shape.per_lane
    raw_a, a = _operand(shape.a, count, rng)
    raw_b, b = _operand(shape.b or shape.a, count, rng)
    c = rng.integers(-100, 100, (_LANES, shape.results)).astype(np.float64)
    lanes = (_LANES, shape.per_lane)
    return [raw_a, raw_b, a.reshape(lanes), b.reshape(lanes), c]


_PRODUCTS = [
    pytest.param(cpu, shape, id=f"{cpu}-{shape.name}")
    for cpu, shapes in (("gfx942", SHAPES), ("gfx90a", SHAPES_90A))
    for shape in shapes
]


@pytest.mark.parametrize(("cpu", "shape"), _PRODUCTS)
def test_mfma(cpu: str, shape: Mfma) -> None:
    raw_a, raw_b, a, b, c = _random(shape)
    memory = c.astype(_RESULT[shape.d])
    report = launch(program(shape), [raw_a, raw_b, memory], workgroup=(64, 1, 1), cpu=cpu)
    check(not report.violations, "\n".join(map(str, report.violations)))
    expected = _expected(shape, a, b, c)
    if shape.d == "i32":
        np.testing.assert_array_equal(memory, expected)
    else:
        scale = np.abs(a).max() * np.abs(b).max() * shape.k
        unit = 4 * np.finfo(_RESULT[shape.d]).eps
        np.testing.assert_allclose(memory, expected, rtol=unit, atol=unit * scale)


@pytest.mark.parametrize(
    ("modifiers", "lanes"),
    [
        ((0, 0, 1), np.arange(64) % 32), ((0, 0, 2), np.arange(64) % 32 + 32),
        ((0, 0, 3), (np.arange(64) + 16) % 64), ((0, 0, 5), np.arange(64) % 16 + 16),
    ],
)  # fmt: skip
def test_lanes_of_b_are_chosen(modifiers: tuple[int, int, int], lanes: np.ndarray) -> None:
    shape = Mfma(16, 4, 4, "f16")
    raw_a, raw_b, a, b, c = _random(shape)
    memory = c.astype(np.float32)
    ir = program(shape, modifiers)
    launch(ir, [raw_a, raw_b, memory], workgroup=(64, 1, 1), cpu="gfx942")
    np.testing.assert_allclose(memory, _expected(shape, a, b[lanes], c), rtol=1e-5, atol=1e-4)


def test_one_block_of_a_is_used_for_several() -> None:
    shape = Mfma(16, 4, 4, "f16")
    raw_a, raw_b, a, b, c = _random(shape)
    memory = c.astype(np.float32)
    ir = program(shape, (1, 1, 0))  # of every two blocks the second
    launch(ir, [raw_a, raw_b, memory], workgroup=(64, 1, 1), cpu="gfx942")
    lane = np.arange(64)
    chosen = a[lane % 16 + 16 * (lane // 32 * 2 + 1)]
    np.testing.assert_allclose(memory, _expected(shape, chosen, b, c), rtol=1e-5, atol=1e-4)


_TILES = 18


def test_accumulation_registers() -> None:
    shape = Mfma(32, 2, 1, "f32")
    raw_a, raw_b, a, b, _ = _random(shape)
    c = np.random.default_rng(1).integers(-100, 100, (_TILES, _LANES, shape.results))
    memory = c.astype(np.float32)
    arguments = [raw_a, raw_b, memory]
    report = launch(accumulators(_TILES), arguments, workgroup=(64, 1, 1), cpu="gfx942")
    check(not report.violations, "\n".join(map(str, report.violations)))
    expected = [_expected(shape, a, b, part.astype(np.float64)) for part in c]
    np.testing.assert_allclose(memory, expected, rtol=1e-6, atol=1e-4)


def test_registers_beyond_the_allocation_fault() -> None:
    """With fewer registers than the code uses: 64 vector and 128 accumulation registers."""
    arguments = [np.zeros(64, np.float32)] * 2 + [np.zeros((_TILES, 64, 16), np.float32)]
    ir = accumulators(_TILES)
    for limits in ({"rsrc3": 0xF}, {"rsrc1": 0x00AF0017}):
        with pytest.raises(WaveFault, match="out of range"):
            launch(ir, list(arguments), workgroup=(64, 1, 1), cpu="gfx942", **limits)
