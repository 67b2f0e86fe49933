"""What only gfx950 has: texts, exchanges of rows, functions of bits, conversions, loads to LDS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boards.amd.isa.decode import decode
from boards.amd.isa.families import FAMILIES
from boards.amd.isa.text import disassemble
from boards.amd.wave.execute import bind
from boards.amd.wave.operands import UnsupportedOperand
from boards.amd.wave.state import EXEC, Waves
from boards.amd.wave.types import MemoryFault
from tests.support import check

_FAMILY, _LANES, _M32 = FAMILIES["gfx950"], 64, 0xFFFFFFFF
_M0 = 124
_TEXTS = Path(__file__).parent.parent / "data" / "gfx950_instructions.txt"
_LANE = np.arange(_LANES)
# src: OCP Microscaling Formats 1.0: FP4 (E2M1), by code.
_FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def machine(lds_bytes: int = 0) -> Waves:
    """One wave whose lanes are on, with 64 vector registers of random bits."""
    w = Waves(1, _LANES, 64, lds_bytes, 1, _FAMILY.null)
    w.sgpr[EXEC : EXEC + 2] = np.uint32(_M32)
    w.set_mode(np.array([0xF0], np.uint32))
    w.select(np.arange(1))
    w.vgpr[:] = np.random.default_rng(1).integers(0, 1 << 32, w.vgpr.shape, np.uint32)
    return w


def step(w: Waves, text: str) -> None:
    """Run an instruction of dwords in hexadecimal."""
    run = bind(decode(_FAMILY, [*(int(word, 16) for word in text.split()), 0, 0, 0, 0], 0))
    if run is None:
        raise AssertionError(f"no meaning for {text}")
    with np.errstate(all="ignore"):
        run(w)


def _known() -> list[tuple[list[int], str]]:
    rows = [line for line in _TEXTS.read_text().splitlines() if not line.startswith("#")]
    split = [line.split("  ", 1) for line in rows]
    return [([int(word, 16) for word in words.split()], text) for words, text in split]


def test_texts_are_llvms_and_every_instruction_has_a_meaning() -> None:
    for words, text in _known():
        inst = decode(_FAMILY, [*words, 0, 0, 0, 0], 0)
        found = " ".join(disassemble(inst).split())
        check((found, inst.size_bytes) == (text, 4 * len(words)), f"{found}, LLVM: {text}")
        check(bind(inst) is not None, f"{text} is not executed")


@pytest.mark.parametrize(("word", "rows"), [("7e02b302", 16), ("7e02b502", 32)])
def test_rows_of_two_registers_change_places(word: str, rows: int) -> None:
    """src: LLVM AMDGPUUsage, permlane16.swap: odd rows of the first, even rows of the second."""
    w = machine()
    a, b = w.vgpr[1, 0].copy(), w.vgpr[2, 0].copy()
    step(w, word)
    first, second = a.reshape(-1, 2, rows), b.reshape(-1, 2, rows)
    np.testing.assert_array_equal(w.vgpr[1, 0].reshape(-1, 2, rows)[:, 0], first[:, 0])
    np.testing.assert_array_equal(w.vgpr[1, 0].reshape(-1, 2, rows)[:, 1], second[:, 0])
    np.testing.assert_array_equal(w.vgpr[2, 0].reshape(-1, 2, rows)[:, 0], first[:, 1])
    np.testing.assert_array_equal(w.vgpr[2, 0].reshape(-1, 2, rows)[:, 1], second[:, 1])


def _bit_function(table: int, *bits: Any) -> Any:
    index = bits[0] << 2 | bits[1] << 1 | bits[2]
    return table >> index & 1


@pytest.mark.parametrize("table", [0x78, 0xE8, 0x96, 0x01, 0xFF, 0x1B])
def test_any_function_of_three_bits(table: int) -> None:
    """src: LLVM VOPInstructions.td: bits 7:6 of the table in OMOD, 5:3 in ABS, 2:0 in NEG."""
    w = machine()
    a, b, c = (w.vgpr[i, 0] for i in (1, 2, 3))
    split = [np.unpackbits(v.copy().view(np.uint8), bitorder="little") for v in (a, b, c)]
    expected = np.packbits(_bit_function(table, *split).astype(np.uint8), bitorder="little")
    low = 0xD2340000 | (table >> 3 & 7) << 8
    high = 0x040E0501 | (table >> 6) << 27 | (table & 7) << 29
    step(w, f"{low:08x} {high:08x}")
    np.testing.assert_array_equal(w.vgpr[0, 0], expected.view(np.uint32))


def test_functions_of_bits_in_halves_keep_the_other_half() -> None:
    w = machine()
    old, a, b, c = (w.vgpr[i, 0].copy() for i in range(4))
    step(w, "d2334f00 0c0e0501")  # bitop3:0x78 (a ^ b & c) op_sel:[1,0,0,1]
    expected = (a >> 16 ^ b & c & 0xFFFF) & 0xFFFF
    np.testing.assert_array_equal(w.vgpr[0, 0], expected << 16 | old & 0xFFFF)


def test_floats_become_pairs_of_16_bits() -> None:
    w = machine()
    a, b = (np.random.default_rng(s).standard_normal(_LANES).astype(np.float32) for s in (1, 2))
    a[:4] = 1.00390625, 1.01171875, np.inf, np.nan  # two ties of bfloat16: to even
    w.vgpr[1, 0], w.vgpr[2, 0] = a.view(np.uint32), b.view(np.uint32)
    step(w, "d2670000 00020501")
    halves = np.stack([a, b], axis=1).astype(np.float16).view(np.uint32)[:, 0]
    np.testing.assert_array_equal(w.vgpr[0, 0], halves)
    step(w, "d2680000 00020501")
    low = (w.vgpr[0, 0] << 16).view(np.float32)
    np.testing.assert_array_equal(low[:3], np.array([1.0, 1.015625, np.inf], np.float32))
    check(bool(np.isnan(low[3])), "NaN stays one")
    near = (w.vgpr[0, 0] & 0xFFFF0000).view(np.float32)
    check(bool((np.abs(near - b) <= np.abs(b) / 256).all()), "half of a last place at most")
    w.vgpr[1, 0] = w.vgpr[0, 0]
    step(w, "7e00b6f9 00051601")  # v_cvt_f32_bf16_sdwa v0, v1 src0_sel:WORD_1
    np.testing.assert_array_equal(w.vgpr[0, 0].view(np.float32), near)


@pytest.mark.parametrize(("byte", "word"), [(0, 0), (1, 0x800), (2, 0x1000), (3, 0x1800)])
def test_pairs_of_fp4_times_a_power_of_two(byte: int, word: int) -> None:
    w = machine()
    exponent = np.random.default_rng(3).integers(100, 140, _LANES).astype(np.uint32)
    scale = exponent << 23 | w.vgpr[3, 0] & 0x7FFFFF  # the mantissa does not count
    w.vgpr[3, 0] = scale
    codes = w.vgpr[2, 0] >> 8 * byte
    expected = _FP4[np.stack([codes & 15, codes >> 4 & 15])] * 2.0 ** (exponent.astype(int) - 127)
    step(w, f"{0xD23F0000 | word:08x} 00020702")
    found = np.stack([w.vgpr[0, 0], w.vgpr[1, 0]]).view(np.float32)
    np.testing.assert_array_equal(found, expected.astype(np.float32))


@pytest.mark.parametrize(("byte", "word"), [(0, 0), (1, 0x2000), (2, 0x4000)])
def test_floats_become_pairs_of_fp4(byte: int, word: int) -> None:
    w = machine()
    a = np.array([0.2, 0.25, 0.26, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 7.0, -0.3, np.inf] * 6)[:64]
    rounded = np.array([0, 0, 0.5, 1, 1, 2, 2, 4, 4, 6, -0.5, 6] * 6)[:64]
    old = w.vgpr[0, 0].copy()
    w.vgpr[2, 0] = (a * 8).astype(np.float32).view(np.uint32)
    w.vgpr[3, 0] = np.zeros(_LANES, np.float32).view(np.uint32)
    w.vgpr[4, 0] = np.uint32(130 << 23)  # 8
    step(w, f"{0xD23D0000 | word:08x} 04120702")
    pair = w.vgpr[0, 0] >> 8 * byte & 0xFF
    np.testing.assert_array_equal(_FP4[pair & 15], rounded)
    np.testing.assert_array_equal(_FP4[pair >> 4], 0)
    rest = np.uint32(_M32 ^ 0xFF << 8 * byte)
    np.testing.assert_array_equal(w.vgpr[0, 0] & rest, old & rest)


# src: OCP 8-bit Floating Point Specification 1.0: codes of 1, 448, -0.875; of gfx942 they differ.
def test_eight_bit_floats_are_those_of_ocp() -> None:
    w = machine()
    w.vgpr[1, 0] = int.from_bytes(bytes([0x38, 0x7E, 0xB6, 0x7F]), "little")
    step(w, "7e00ad01")
    np.testing.assert_array_equal(w.vgpr[0, 0].view(np.float32), np.float32(1))
    np.testing.assert_array_equal(w.vgpr[1, 0].view(np.float32), np.float32(448))
    w.vgpr[1, 0] = int.from_bytes(bytes([0x38, 0x7E, 0xB6, 0x7F]), "little")
    step(w, "7e00acf9 00050601")
    np.testing.assert_array_equal(w.vgpr[0, 0].view(np.float32), np.float32(-0.875))
    check(bool(np.isnan(w.vgpr[1, 0].view(np.float32)).all()), "0x7f is NaN")


@pytest.mark.parametrize(("word", "bits"), [("d9c60008", 16), ("d9c40008", 8), ("d9c00008", 4)])
def test_sixteen_lanes_transpose_what_they_read(word: str, bits: int) -> None:
    """src: CDNA4 ISA 11.4: lane l gets M = l of rows that lie 16 elements wide in memory."""
    w = machine(lds_bytes=1024)
    each = 64 // bits
    elements = np.random.default_rng(bits).integers(0, 1 << bits, (4, each, 16), np.uint16)
    spread = elements.reshape(-1)[:, None] >> np.arange(bits) & 1
    data = np.packbits(spread.astype(np.uint8).reshape(-1), bitorder="little")
    w.lds[2 : 2 + len(data) // 4] = data.view(np.uint32)
    w.vgpr[2, 0] = 8 * _LANE
    step(w, f"{word} 00000002")
    found = np.stack([w.vgpr[0, 0], w.vgpr[1, 0]], axis=1).copy().view(np.uint8)
    expected = elements.transpose(0, 2, 1).reshape(-1)[:, None] >> np.arange(bits) & 1
    packed = np.packbits(expected.astype(np.uint8).reshape(-1), bitorder="little")
    np.testing.assert_array_equal(found.reshape(-1), packed)


class _Rows:
    """Memory whose dword at an address is the address."""

    def load(self, va: Any, nbytes: int) -> Any:
        return np.stack([(va + 4 * i).astype(np.uint32) for i in range(max(1, nbytes // 4))])

    def store(self, va: Any, data: Any, nbytes: int) -> None:
        raise MemoryFault("read-only", "write", int(va[0]))

    def fetch(self, va: int, nbytes: int) -> bytes:
        raise MemoryFault("unmapped", "execute", va)


@pytest.mark.parametrize(
    ("text", "dwords", "based"),
    [("ddf48010 007f0000", 4, False), ("ddf88010 007f0000", 3, False),
     ("dca88010 007f0000", 1, False), ("e05d1010 80000000", 4, True),
     ("e0511010 80000000", 1, True)],
)  # fmt: skip
def test_memory_goes_to_lds_lane_by_lane(text: str, dwords: int, based: bool) -> None:
    """src: CDNA3 ISA 9.1.9: LDS address = M0 + the instruction's offset + lane * size."""
    w = machine(lds_bytes=4096)
    w.memory = _Rows()
    w.sgpr[_M0] = 64
    w.sgpr[0:4, 0] = 0x100000, 0, 1 << 20, 0x27000
    w.sgpr[EXEC] = 0xFFFFFFFE
    w.select(np.arange(1))
    start = np.uint32(0 if based else 0x100000)
    w.vgpr[0, 0], w.vgpr[1, 0] = start + (_LANE * 32).astype(np.uint32), 0
    before = w.lds.copy()
    step(w, text)
    place = (64 + 16) // 4 + _LANE[1:, None] * dwords + np.arange(dwords)
    expected = 0x100000 + 16 + _LANE[1:, None] * 32 + 4 * np.arange(dwords)
    np.testing.assert_array_equal(w.lds[place], expected)
    rest = np.ones(len(w.lds), bool)
    rest[place] = False
    np.testing.assert_array_equal(w.lds[rest], before[rest])


@pytest.mark.parametrize(("byte", "word"), [(0, 0), (1, 0x2000), (2, 0x4000), (3, 0x6000)])
def test_what_is_a_code_already_is_not_rounded(byte: int, word: int) -> None:
    """v_cvt_sr_fp8_f32: random bits change nothing of an exact number; the rest stays."""
    w = machine()
    old = w.vgpr[0, 0].copy()
    w.vgpr[1, 0] = np.float32(-0.875).view(np.uint32)
    step(w, f"{0xD2A40000 | word:08x} 00020501")
    rest = np.uint32(_M32 ^ 0xFF << 8 * byte)
    np.testing.assert_array_equal(w.vgpr[0, 0], old & rest | np.uint32(0xB6 << 8 * byte))


def test_a_store_that_says_lds_is_refused() -> None:
    # buffer_store_dword and buffer_atomic_add with the LDS bit, which loads alone have
    for word in (0xE0710000, 0xE1090000):
        with pytest.raises(UnsupportedOperand, match="lds"):
            bind(decode(_FAMILY, [word, 0x80000000, 0, 0], 0))
