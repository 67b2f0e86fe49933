"""Matrix products that gfx950 has first, against numpy: deep ones, factors of 8, 6 and 4 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from boards.amd.wave.state import Waves
from tests.boards.test_isa_gfx950 import machine, step

_LANES = 64
_LANE = np.arange(_LANES)
# a of v16, b of v24, c and d of v0 on; scales in v40, v41
_WIDE = {
    (16, 32, "f16"): 0xD3D4, (32, 16, "f16"): 0xD3D5, (16, 32, "bf16"): 0xD3B5,
    (32, 16, "bf16"): 0xD3B7, (16, 64, "i8"): 0xD3B6, (32, 32, "i8"): 0xD3B8,
}  # fmt: skip
_FORMATS = ("fp8", "bf8", "fp6", "bf6", "fp4")
# src: OCP Microscaling Formats 1.0 and 8-bit Floating Point Specification 1.0: bits of the exponent
# and the mantissa, bias.
_SHAPES = {"fp8": (4, 3, 7), "bf8": (5, 2, 15), "fp6": (2, 3, 1), "bf6": (3, 2, 3),
           "fp4": (2, 1, 1)}  # fmt: skip


def _value(codes: Any, form: str) -> Any:
    exponents, mantissa, bias = _SHAPES[form]
    size = codes & (1 << exponents + mantissa) - 1
    exponent, fraction = size >> mantissa, (size & (1 << mantissa) - 1) / (1 << mantissa)
    value = np.where(exponent, 1 + fraction, 2 * fraction) * 2.0 ** (exponent - bias)
    return np.where(codes >> exponents + mantissa, -value, value)


def _bits(form: str) -> int:
    return 1 + sum(_SHAPES[form][:2])


def _registers(w: Waves, first: int, rows: Any, bits: int) -> None:
    """Put each lane's elements (64, count) into registers, one behind the other."""
    spread = rows[:, :, None].astype(np.uint32) >> np.arange(bits, dtype=np.uint32) & 1
    packed = np.packbits(spread.reshape(_LANES, -1).astype(np.uint8), axis=1, bitorder="little")
    for i, dword in enumerate(np.ascontiguousarray(packed).view(np.uint32).T):
        w.vgpr[first + i, 0] = dword


def _taken(m: int, k: int, chunk: int) -> Any:
    """The k of each lane's elements: chunks that go round the groups of lanes."""
    groups = _LANES // m
    number = np.arange(k // groups)[None, :]
    return (number // chunk * groups + _LANE[:, None] // m) * chunk + number % chunk


def _result(w: Waves, m: int, dtype: Any) -> Any:
    """src: CDNA3 ISA 7.1.4: four rows of a column side by side in a lane."""
    row, column = np.indices((m, m))
    chunk = row // 4
    lane = column + m * (chunk % (_LANES // m))
    return w.vgpr[chunk // (_LANES // m) * 4 + row % 4, 0, lane].view(dtype)


@pytest.mark.parametrize(("m", "k", "kind"), _WIDE)
def test_products_of_twice_the_depth(m: int, k: int, kind: str) -> None:
    """src: CDNA4 ISA 7.1: each lane holds consecutive k, 16 bytes of them."""
    w, rng = machine(), np.random.default_rng(m + k)
    a, b = rng.integers(-64, 64, (2, m, k))
    for first, factor in ((16, a), (24, b)):
        if kind == "i8":
            codes, bits = factor.astype(np.int8).view(np.uint8), 8
        elif kind == "f16":
            codes, bits = factor.astype(np.float16).view(np.uint16), 16
        else:
            codes, bits = factor.astype(np.float32).view(np.uint32) >> 16, 16
        at = _taken(m, k, 128 // bits)
        _registers(w, first, codes[_LANE[:, None] % m, at], bits)
    w.vgpr[:16] = 0
    step(w, f"{_WIDE[m, k, kind]:04x}0000 04023110")
    dtype = np.int32 if kind == "i8" else np.float32
    np.testing.assert_array_equal(_result(w, m, dtype), a @ b.T)


def _factor(w: Waves, first: int, m: int, k: int, form: str, rng: Any) -> Any:
    """Random codes of a format (no NaN) in registers; their values (m, k)."""
    bits = _bits(form)
    codes = rng.integers(0, 1 << bits, (m, k))
    if bits == 8:  # a small exponent: no NaN, no infinity, sums that are exact
        codes = codes & 0x80 | rng.integers(0x30, 0x48, (m, k))
    # src: ROCm blog "Matrix Core Programming on AMD CDNA3 and CDNA4": 32 in a row, 16 of FP8
    at = _taken(m, k, 16 if bits == 8 else 32)
    _registers(w, first, codes[_LANE[:, None] % m, at], bits)
    return _value(codes, form)


@pytest.mark.parametrize(("m", "k", "opcode"), [(16, 128, 0xD3AD), (32, 64, 0xD3AE)])
@pytest.mark.parametrize("left", range(5), ids=_FORMATS)
def test_products_of_any_two_formats(m: int, k: int, opcode: int, left: int) -> None:
    for right in range(5):
        w, rng = machine(), np.random.default_rng(8 * left + right)
        a = _factor(w, 16, m, k, _FORMATS[left], rng)
        b = _factor(w, 24, m, k, _FORMATS[right], rng)
        w.vgpr[:16] = 0
        step(w, f"{opcode:04x}{left << 8:04x} {0x04023110 | right << 29:08x}")
        np.testing.assert_allclose(_result(w, m, np.float32), a @ b.T, rtol=1e-6)


@pytest.mark.parametrize("byte", range(4))
@pytest.mark.parametrize(("m", "k", "opcode"), [(16, 128, 0xD3AD), (32, 64, 0xD3AE)])
@pytest.mark.parametrize(("left", "right"), [(0, 0), (0, 4), (4, 1), (4, 4), (2, 3)])
def test_scales_are_those_of_32_in_a_row(
    m: int, k: int, opcode: int, left: int, right: int, byte: int
) -> None:
    """src: CDNA4 ISA 7.2, V_MFMA_SCALE: a byte of E8M0 for each row and 32 k, op_sel the byte."""
    w, rng = machine(), np.random.default_rng(byte)
    a = _factor(w, 16, m, k, _FORMATS[left], rng)
    b = _factor(w, 24, m, k, _FORMATS[right], rng)
    other = 3 - byte
    for register, place in ((40, byte), (41, other)):
        w.vgpr[register, 0] &= np.uint32(0xFFFFFFFF ^ 0xFF << 8 * place)
        exponent = rng.integers(124, 131, _LANES).astype(np.uint32)
        w.vgpr[register, 0] |= exponent << np.uint32(8 * place)
        factor = 2.0 ** (exponent.astype(int) - 127)
        blocks = factor.reshape(-1, m).T  # lane = row + m * block
        scaled = np.repeat(blocks, 32, axis=1)
        a, b = (a * scaled, b) if register == 40 else (a, b * scaled)
    w.vgpr[:16] = 0
    low = (byte & 1) << 11 | (other & 1) << 12
    high = (byte >> 1) << 27 | (other >> 1) << 28
    head = f"{0xD3AC0000 | low:08x} {0x00025328 | high:08x}"
    step(w, f"{head} {opcode:04x}{0x800 | left << 8:04x} {0x04023110 | right << 29:08x}")
    np.testing.assert_allclose(_result(w, m, np.float32), a @ b.T, rtol=1e-5, atol=1e-4)
