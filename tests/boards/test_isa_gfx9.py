"""What only gfx942 has: pairs of f32, wide adds, cleared halves, wave-wide permutations."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from boards.amd.isa.decode import VGPR, UnknownInstruction, decode
from boards.amd.isa.families import FAMILIES
from boards.amd.wave.execute import bind, execute
from boards.amd.wave.state import EXEC, VCC, Waves, unpack_bits
from boards.amd.wave.types import Dispatch, Strict
from tests.boards.isa_vectors import random_bits, random_floats, vector
from tests.boards.wave_harness import FlatMemory, kernel, launch
from tests.support import check

_vector = partial(vector, only=("gfx942",))
_FAMILY = FAMILIES["gfx942"]
_LANES, _ALL = 64, np.uint32(0xFFFFFFFF)
_ALL_HIGH = {"hi_ab": 3, "hi_c": 1}


def _pairs(seed: int) -> np.ndarray:
    return random_floats(seed, np.float32).reshape(-1, 2)


def _floats(raw: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(raw).view(np.float32)


@pytest.mark.parametrize("low", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("high", [7, 5, 0])
def test_pairs_of_floats(low: int, high: int) -> None:
    rng = np.random.default_rng(low)
    a, b, c = (rng.integers(-512, 512, (20480, 2)).astype(np.float32) for _ in range(3))
    modifiers = {"op_sel": low, "hi_ab": high & 3, "hi_c": high >> 2, "neg": 1, "neg_hi": 2}
    found = _floats(_vector("v_pk_fma_f32", [a, b, c], 2, **modifiers))
    x = [v[:, low >> i & 1] for i, v in enumerate((a, b, c))]
    y = [v[:, high >> i & 1] for i, v in enumerate((a, b, c))]
    np.testing.assert_array_equal(found[:, 0], -x[0] * x[1] + x[2])
    np.testing.assert_array_equal(found[:, 1], y[0] * -y[1] + y[2])
    modifiers |= {"hi_c": 0, "op_sel": low & 3}
    found = _floats(_vector("v_pk_mul_f32", [a, b], 2, **modifiers))
    np.testing.assert_array_equal(found, np.stack([-x[0] * x[1], y[0] * -y[1]], axis=1))
    found = _vector("v_pk_mov_b32", [a, b], 2, op_sel=low & 3)
    expected = np.stack([a[:, low & 1], b[:, low >> 1 & 1]], axis=1)
    np.testing.assert_array_equal(found, expected.view(np.uint32))


def test_pairs_add_like_single_floats() -> None:
    a, b = _pairs(1), _pairs(2)
    found = _floats(_vector("v_pk_add_f32", [a, b], 2, **_ALL_HIGH))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, a + b)


def test_shift_and_add_of_64_bits() -> None:
    a, b, c = (random_bits(seed, np.uint64) for seed in (1, 2, 3))
    count = (b & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    rows = zip(a.tolist(), count.tolist(), c.tolist(), strict=True)
    expected = [(x << (n & 7)) + z & (1 << 64) - 1 for x, n, z in rows]
    found = _vector("v_lshl_add_u64", [a, count, c], np.uint64)
    np.testing.assert_array_equal(found, np.array(expected, np.uint64))


@pytest.mark.parametrize(
    ("name", "clears"),
    [("v_add_f16", True), ("v_add_u16", True), ("v_fma_f16", False), ("v_mad_u16", False)],
)
def test_the_other_half_of_a_16_bit_result(name: str, clears: bool) -> None:
    halves = [random_bits(seed, np.uint16) for seed in (1, 2, 3)]
    count = 3 if name.startswith(("v_fma", "v_mad")) else 2
    old = np.full(len(halves[0]), 0x12345678, np.uint32)
    found = _vector(name, [*halves[:count], old], np.uint32)
    expected = np.uint32(0) if clears else np.uint32(0x12340000)
    np.testing.assert_array_equal(found & np.uint32(0xFFFF0000), expected)


def _signed(values: np.ndarray, bits: int) -> np.ndarray:
    """The fields of dwords, lowest first, sign-extended."""
    parts = [(values.astype(np.int64) >> low) & (1 << bits) - 1 for low in range(0, 32, bits)]
    both = np.stack(parts, axis=1)
    return np.where(both >> (bits - 1) != 0, both - (1 << bits), both)


@pytest.mark.parametrize(("name", "bits"), [("v_dot2c_i32_i16", 16), ("v_dot4c_i32_i8", 8),
                                            ("v_dot8c_i32_i4", 4)])  # fmt: skip
def test_accumulating_dot_products(name: str, bits: int) -> None:
    a, b, c = (random_bits(seed) for seed in (1, 2, 3))
    found = _vector(name, [a, b, c], np.uint32)
    total = (_signed(a, bits) * _signed(b, bits)).sum(axis=1) + c
    np.testing.assert_array_equal(found, total.astype(np.uint32))


def test_multiply_and_add_round_twice() -> None:
    a, b, c = (np.random.default_rng(s).standard_normal(20480).astype(np.float16) for s in range(3))
    found = _vector("v_mad_f16", [a, b, c], np.float16)
    np.testing.assert_array_equal(found, (a * b).astype(np.float16) + c)
    check((found != (a.astype(np.float64) * b + c).astype(np.float16)).any())


def test_a_compare_that_writes_exec_writes_its_destination_too() -> None:
    w = Waves(1, _LANES, 8, 0, 1, -1)
    w.sgpr[EXEC : EXEC + 2] = _ALL
    w.select(np.arange(1))
    w.vgpr[1], w.vgpr[2] = np.arange(64), 20
    word = 0x7C000000 | 0xD1 << 17 | 2 << 9 | VGPR + 1  # v_cmpx_lt_i32_e32 vcc, v1, v2
    run = bind(decode(_FAMILY, [word, 0, 0, 0], 0))
    if run is None:
        raise AssertionError("v_cmpx_lt_i32 has no meaning")
    run(w)
    for register in (EXEC, VCC):
        mask = unpack_bits(w.scalar_mask(register))[0]
        np.testing.assert_array_equal(mask, np.arange(64) < 20)


_LANE = np.arange(_LANES)
_WAVE_WIDE = {
    0x130: (_LANE + 1, _LANE < 63), 0x134: ((_LANE + 1) % 64, _LANE >= 0),
    0x138: (_LANE - 1, _LANE > 0), 0x13C: ((_LANE - 1) % 64, _LANE >= 0),
    0x142: (_LANE // 16 * 16 - 1, _LANE >= 16), 0x143: (np.full(64, 31), _LANE >= 32),
}  # fmt: skip


@pytest.mark.parametrize("control", _WAVE_WIDE, ids=hex)
def test_permutations_over_the_wave(control: int) -> None:
    source, reaches = _WAVE_WIDE[control]
    for bound in (0, 1):
        w = Waves(1, _LANES, 8, 0, 1, -1)
        w.sgpr[EXEC : EXEC + 2] = _ALL
        w.select(np.arange(1))
        w.vgpr[0], w.vgpr[1] = 7, 100 + _LANE
        extra = 1 | control << 8 | bound << 19 | 0xFF << 24
        run = bind(decode(_FAMILY, [0x7E0002FA, extra, 0, 0], 0))
        if run is None:
            raise AssertionError("v_mov_b32_dpp has no meaning")
        run(w)
        other = 0 if bound else 7
        np.testing.assert_array_equal(w.vgpr[0][0], np.where(reaches, 100 + source, other))


_CODE_VA = 0x10000
_LOAD, _STORE = [0xDC508000, 0x01000002], [0xDC708000, 0x00000302]  # v1 = [s0]; [s0] = v3
_USE, _END = 0x7E080301, 0xBF810000  # v_mov_b32_e32 v4, v1


def _violations(words: list[int]) -> list[str]:
    memory = FlatMemory()
    buffer = memory.add(np.zeros(4096, np.uint8))
    prepare = [0x7E040280, 0x7E060280]  # v_mov_b32_e32 v2, 0; v3 likewise
    memory.place(_CODE_VA, np.array([*prepare, *words, _END, 0, 0, 0], np.uint32))
    dispatch = Dispatch(
        _CODE_VA, (1, 1, 1), (64, 1, 1), 0xF0 << 12, 2 << 1, lanes=64, rsrc3=1,
        user_sgprs=(buffer & 0xFFFFFFFF, buffer >> 32),
    )  # fmt: skip
    return [f.kind for f in execute(dispatch, memory, Strict(), _FAMILY).violations]


@pytest.mark.parametrize(("left", "late"), [(0, False), (1, False), (2, True)])
def test_stores_count_like_loads(left: int, late: bool) -> None:
    wait = 0xBF8C0F70 | left  # s_waitcnt vmcnt(left)
    found = _violations([*_LOAD, *_STORE, wait, _USE])
    check(found == (["wait count"] if late else []), str(found))


_FENCES = kernel(
    """  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %a, i32 %t
  %v = load i32, ptr addrspace(1) %p
  fence syncscope("agent") release
  %q = getelementptr i32, ptr addrspace(1) %c, i32 0
  %old = atomicrmw add ptr addrspace(1) %q, i32 %v seq_cst
  fence acquire
  ret void""",
    "ptr addrspace(1) noalias %a, ptr addrspace(1) noalias %c",
    top="declare i32 @llvm.amdgcn.workitem.id.x()\n",
)


def test_fences() -> None:
    a, c = np.arange(64, dtype=np.int32), np.zeros(1, np.int32)
    report = launch(_FENCES, [a, c], workgroup=(64, 1, 1), cpu="gfx942")
    check(c[0] == a.sum() and not report.violations, f"{c} {report.violations}")


def test_long_encodings_take_no_literal() -> None:
    words = [0xD1010000, 255 | VGPR + 1 << 9, 0x3F000000, 0]  # v_add_f32_e64 v0, literal, v1
    with pytest.raises(UnknownInstruction):
        decode(_FAMILY, words, 0)
    check(decode(_FAMILY, [words[0], 242 | VGPR + 1 << 9, 0, 0], 0).name == "v_add_f32")


def _eight_bits(kind: str) -> Any:
    """The codes of E4M3 or E5M2 FNUZ and what they are, from the format's definition."""
    bits, bias = (3, 8) if kind == "fp8" else (2, 16)
    code = np.arange(256)
    exponent, fraction = (code & 127) >> bits, code & ((1 << bits) - 1)
    size = (fraction / (1 << bits) + (exponent > 0)) * 2.0 ** (np.maximum(exponent, 1) - bias)
    values = np.where(code & 128, -size, size)
    values[128] = np.nan
    return values.astype(np.float32)


@pytest.mark.parametrize("kind", ["fp8", "bf8"])
def test_eight_bit_floats(kind: str) -> None:
    table = _eight_bits(kind)
    raw = random_bits(1)
    found = _vector(f"v_cvt_f32_{kind}", [raw], np.float32)
    np.testing.assert_array_equal(found, table[raw & 0xFF])
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(20480).astype(np.float32) * 2.0 ** rng.integers(-12, 9, 20480)
            for _ in range(2))  # fmt: skip
    a, b = a.astype(np.float32), b.astype(np.float32)
    packed = _vector(f"v_cvt_pk_{kind}_f32", [a, b, np.zeros(20480, np.uint32)], np.uint32)
    finite = table[~np.isnan(table)]
    last, step = finite.max(), 1 << (4 if kind == "fp8" else 13)
    check((np.abs(a[:2048]) > last + step / 2).any() or kind == "bf8", "none is too large")
    for values, codes in ((a, packed & 0xFF), (b, packed >> 8 & 0xFF)):
        wide = values[:2048].astype(np.float64)
        best = np.abs(finite.astype(np.float64)[None, :] - wide[:, None]).min(axis=1)
        error = np.abs(table[codes[:2048]] - wide)
        # Without a clip before it, a conversion of what is too large gives NaN.
        np.testing.assert_array_equal(
            error, np.where(np.abs(wide) >= last + step / 2, np.nan, best)
        )
