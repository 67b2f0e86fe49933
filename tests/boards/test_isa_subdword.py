"""SDWA on the executor against Python integers: every selection, both extensions, the rest."""

from __future__ import annotations

import random

import numpy as np
import pytest

from boards.amd.isa.decode import decode
from boards.amd.isa.families import FAMILIES
from boards.amd.wave.execute import bind
from boards.amd.wave.operands import UnsupportedOperand
from boards.amd.wave.state import EXEC, Waves
from tests.support import check

_CPU, _LANES, _SDWA = "gfx1030", 32, 249
_SUB_NC_U32, _ADD_F16, _CMP_LT_I32 = 0x26 << 25, 0x32 << 25, 0x7C000000 | 0x81 << 17
_PARTS = [(0, 8), (8, 8), (16, 8), (24, 8), (0, 16), (16, 16), (0, 32)]
_M32 = 0xFFFFFFFF


def _part(value: int, select: int, extend: int) -> int:
    low, width = _PARTS[select]
    field = value >> low & (1 << width) - 1
    return field - (1 << width) if extend and field >> (width - 1) else field


def _placed(result: int, old: int, select: int, unused: int) -> int:
    low, width = _PARTS[select]
    mask = ((1 << width) - 1) << low
    field = result << low & mask
    if unused == 2:
        return field | old & ~mask
    negative = field >> (low + width - 1) & 1
    return field | (_M32 << (low + width) & _M32 if unused == 1 and negative else 0)


def _run(words: list[int], a: np.ndarray, b: np.ndarray, old: np.ndarray, cpu: str = _CPU) -> Waves:
    family = FAMILIES[cpu]
    w = Waves(1, family.lane_counts[0], 8, 0, 1, family.null)
    w.sgpr[EXEC : EXEC + 2] = np.uint32(_M32)
    w.set_mode(np.array([0xF0], np.uint32))
    w.select(np.arange(1))
    w.vgpr[0], w.vgpr[1], w.vgpr[2] = old, a, b
    run = bind(decode(family, [*words, 0, 0], 0))
    if run is None:
        raise AssertionError("no meaning")
    run(w)
    return w


def _random(rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.integers(0, 1 << 32, _LANES, np.uint32) for _ in range(3)]


def test_integers_pick_extend_and_place_parts() -> None:
    rnd, rng = random.Random(3), np.random.default_rng(3)
    for select in range(7):
        for unused in range(3):
            for _ in range(12):
                s0, s1, e0, e1 = (*rnd.choices(range(7), k=2), *rnd.choices(range(2), k=2))
                extra = 1 | select << 8 | unused << 11 | s0 << 16 | e0 << 19 | s1 << 24 | e1 << 27
                a, b, old = _random(rng)
                w = _run([_SUB_NC_U32 | _SDWA | 2 << 9, extra], a, b, old)
                expected = [
                    _placed(_part(x, s0, e0) - _part(y, s1, e1) & _M32, z, select, unused)
                    for x, y, z in zip(a.tolist(), b.tolist(), old.tolist(), strict=True)
                ]
                np.testing.assert_array_equal(w.vgpr[0][0], np.array(expected, np.uint32))


def test_halves_of_floats_have_signs() -> None:
    rng = np.random.default_rng(4)
    halves = rng.standard_normal((2, _LANES, 2)).astype(np.float16)
    a, b = (np.ascontiguousarray(v).view(np.uint32)[:, 0] for v in halves)
    for high0, high1, neg0, abs1 in ((0, 1, 1, 0), (1, 0, 0, 1), (1, 1, 1, 1)):
        extra = 1 | 5 << 8 | (4 + high0) << 16 | neg0 << 20 | (4 + high1) << 24 | abs1 << 29
        w = _run([_ADD_F16 | _SDWA | 2 << 9, extra], a, b, a)
        x, y = halves[0, :, high0], halves[1, :, high1]
        expected = (-x if neg0 else x) + (np.abs(y) if abs1 else y)
        np.testing.assert_array_equal(w.vgpr[0][0] >> 16, expected.view(np.uint16))
        np.testing.assert_array_equal(w.vgpr[0][0] & 0xFFFF, 0)


def test_compares_write_the_scalar_they_name() -> None:
    a, b, old = _random(np.random.default_rng(5))
    # byte 1 of source 0, sign-extended, against word 0 of source 1, into s10
    w = _run([_CMP_LT_I32 | _SDWA | 2 << 9, 1 | 0x8A00 | 1 << 16 | 1 << 19 | 4 << 24], a, b, old)
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    expected = sum((_part(x, 1, 1) < _part(y, 4, 0)) << i for i, (x, y) in enumerate(pairs))
    check(int(w.sgpr[10][0]) == expected, f"{int(w.sgpr[10][0]):#x}, not {expected:#x}")


# v_cvt_pk_f32_fp8 and _bf8 v[4:5], v1; v_cvt_f64_i32, v_cvt_i32_f64 and v_mov_b64, which have no
# such form on any chip
_TO_PAIRS = {"fp8": 0x56, "bf8": 0x57}
_WITHOUT_FORM = (0x04, 0x03, 0x38)


def _vop1(opcode: int) -> int:
    return 0x7E000000 | 4 << 17 | opcode << 9 | _SDWA


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("name", _TO_PAIRS)
def test_a_conversion_to_two_floats_writes_both(name: str, half: int) -> None:
    # codes of 1.0, -2.0, 0.5 and -1.5: CDNA3 ISA 6.2, E4M3 with bias 8 and E5M2 with bias 16
    codes = {"fp8": (0x40, 0xC8, 0x38, 0xC4), "bf8": (0x40, 0xC4, 0x3C, 0xC2)}[name]
    numbers = (1.0, -2.0, 0.5, -1.5)
    packed = np.full(64, int.from_bytes(bytes(codes), "little"), np.uint32)
    w = _run([_vop1(_TO_PAIRS[name]), 1 | 6 << 8 | (4 + half) << 16], packed, packed, packed,
             "gfx942")  # fmt: skip
    for i, number in enumerate(numbers[2 * half : 2 * half + 2]):
        np.testing.assert_array_equal(w.vgpr[4 + i][0].view(np.float32), np.float32(number))


@pytest.mark.parametrize("opcode", _WITHOUT_FORM)
def test_operands_of_64_bits_have_no_parts(opcode: int) -> None:
    zero = np.zeros(64, np.uint32)
    with pytest.raises(UnsupportedOperand, match="64 bits"):
        _run([_vop1(opcode), 1 | 6 << 8 | 6 << 16], zero, zero, zero, "gfx942")
