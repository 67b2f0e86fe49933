"""Single instructions against values that vendors publish or that were recorded on silicon."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from boards.amd.isa.decode import decode
from boards.amd.isa.families import FAMILIES
from boards.amd.wave.execute import bind
from boards.amd.wave.operands import UnsupportedOperand
from boards.amd.wave.state import EXEC, Waves
from tests.boards.isa_vectors import CHIPS, PLAIN_MODE, entry_of, random_floats, vector
from tests.boards.wave_harness import ARGS, kernel, launch
from tests.boards.wave_harness import CHIPS as FOUR
from tests.support import check

_ROWS, _SAMPLES = 64, 6400
_UINT: dict[Any, Any] = {np.float16: np.uint16, np.float32: np.uint32, np.float64: np.uint64}


def _padded(values: list[Any], dtype: Any) -> Any:
    return np.resize(np.array(values, dtype), -(-len(values) // _ROWS) * _ROWS)


# src: RDNA3 and CDNA3 ISA manuals, "Functional examples" of these instructions.
_EXAMPLES = {
    "v_exp_f32": {0xFF800000: 0, 0x80000000: 0x3F800000, 0x7F800000: 0x7F800000},
    "v_log_f32": {
        0xFF800000: 0xFFC00000, 0xBF800000: 0xFFC00000, 0x80000000: 0xFF800000, 0: 0xFF800000,
        0x3F800000: 0, 0x7F800000: 0x7F800000,
    },
    "v_rcp_f32": {
        0xFF800000: 0x80000000, 0xC0000000: 0xBF000000, 0x80000000: 0xFF800000, 0: 0x7F800000,
        0x7F800000: 0,
    },
    "v_rsq_f32": {
        0xFF800000: 0xFFC00000, 0x80000000: 0xFF800000, 0: 0x7F800000, 0x40800000: 0x3F000000,
        0x7F800000: 0,
    },
    "v_sqrt_f32": {
        0xFF800000: 0xFFC00000, 0x80000000: 0x80000000, 0: 0, 0x40800000: 0x40000000,
        0x7F800000: 0x7F800000,
    },
    "v_sin_f32": {
        0xFF800000: 0xFFC00000, 0xFF7FFFFF: 0, 0x80000000: 0x80000000, 0x3E800000: 0x3F800000,
        0x7F800000: 0xFFC00000,
    },
    "v_cos_f32": {
        0xFF800000: 0xFFC00000, 0xFF7FFFFF: 0x3F800000, 0x80000000: 0x3F800000, 0x3E800000: 0,
        0x7F800000: 0xFFC00000,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", _EXAMPLES)
def test_functional_examples_of_the_manuals(name: str) -> None:
    sources = _padded(list(_EXAMPLES[name]), np.uint32)
    found = vector(name, [sources], np.uint32)
    expected = _padded(list(_EXAMPLES[name].values()), np.uint32)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["f16", "f32"])
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_an_angle_may_be_any_number_of_turns(name: str, kind: str) -> None:
    # src: RDNA3 and CDNA3 ISA manuals, V_SIN_F32: full range input is supported. LLVM asks for no
    # v_fract in front of it on any chip since gfx9 (AMDGPU.td, FeatureTrigReducedRange).
    dtype = np.float16 if kind == "f16" else np.float32
    turns = random_floats(30, dtype)[:_SAMPLES]
    turns = np.concatenate([turns[np.isfinite(turns)], [dtype(300.25), dtype(-1000.75)]])
    part = [Fraction(float(t)) % 1 for t in turns]
    expected = [getattr(math, name)(2 * math.pi * float(p)) for p in part]
    found = vector(f"v_{name}_{kind}", [_padded(turns, dtype)], dtype)[: len(turns)]
    tolerance = 2e-3 if kind == "f16" else 1e-6
    np.testing.assert_allclose(found.astype(np.float64), expected, atol=tolerance, rtol=0)


_SINE = kernel(
    """  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr float, ptr addrspace(1) %a, i32 %t
  %v = load float, ptr addrspace(1) %p
  %s = call afn float @llvm.sin.f32(float %v)
  store float %s, ptr addrspace(1) %p
  ret void""",
    f"{ARGS} %a",
    top="declare float @llvm.sin.f32(float)\ndeclare i32 @llvm.amdgcn.workitem.id.x()\n",
)


@pytest.mark.parametrize("cpu", FOUR)
def test_llvm_counts_on_the_full_range(cpu: str) -> None:
    """Its sine multiplies by 1 / 2 pi and nothing else, so 2000 and more radians come as turns."""
    angles = np.linspace(-4000, 4000, 64, dtype=np.float32)
    found = angles.copy()
    launch(_SINE, [found], workgroup=(64, 1, 1), cpu=cpu)
    turns = (angles * np.float32(1 / (2 * math.pi))).astype(np.float64)
    np.testing.assert_allclose(found, np.sin(turns * 2 * math.pi), atol=1e-6)
    check(np.abs(turns).max() > 256, "beyond what older chips take")


def _field(bits: int, fraction: int, exponents: int) -> int:
    return bits >> fraction & (1 << exponents) - 1


def _scaled(value: int, d: int, n: int, *, wide: bool) -> tuple[int | None, bool]:
    """What silicon makes of v_div_scale's operands (bit patterns): result and flag.

    None: any NaN.
    """
    # src: AMD rocjitsu, division.h, div_scale(): "checked on physical gfx1100/gfx1201".
    fraction, exponents, step, gap, low = (52, 11, 128, 768, 53) if wide else (23, 8, 64, 96, 24)
    top = (1 << exponents) - 1
    ed, en = (_field(v, fraction, exponents) for v in (d, n))
    delta, of_denominator = en - ed, value == d
    change, flag = 0, abs(delta) >= gap
    if delta >= gap:
        change = step if of_denominator else 0
    elif ed == 0:
        change = step
    elif ed >= top - 2:
        change = 0 if flag and not of_denominator else -step
    elif delta <= -gap:
        change = 0 if of_denominator else step
    elif en <= low:
        change = step
    magnitude = (1 << fraction + exponents) - 1
    if not d & magnitude or not n & magnitude:
        return magnitude + 1 | top << fraction | 1 << fraction - 1, flag
    if value & magnitude >= top << fraction:
        return None if value & magnitude > top << fraction else value, flag
    exponent, size = _field(value, fraction, exponents), value & (1 << fraction) - 1
    size |= 1 << fraction if exponent else 0
    return value & magnitude + 1 | _encoded(size, max(exponent, 1) - 1 + change, fraction), flag


def _encoded(size: int, shift: int, fraction: int) -> int:
    """The bits of size * 2^shift units, a unit being the smallest number; it has to fit."""
    units = size << shift if shift >= 0 else size >> -shift
    above = max(0, units.bit_length() - fraction - 1)
    if shift < 0 and units << -shift != size:
        raise AssertionError("not exact")
    return (above << fraction) + (units >> above)


# src: tinygrad, test/amd/hw (recorded on gfx1100): value, denominator, numerator, result, flag.
_RECORDED = [
    (1.0, 0.0, 1.0, -math.nan, True),
    (0.0, 1.0, 0.0, -math.nan, True),
    (1.0, 1.0, 3.4028234663852886e38, 2.0**64, True),
    (2.0**-126, 1.0, 2.0**-126, 2.0**-62, True),
    (1.0, 4.0, 1.0, 1.0, False),
    (2.0**-30, 2.0**70, 2.0**-30, 2.0**34, True),
]


def test_div_scale_as_recorded() -> None:
    columns = list(zip(*_RECORDED, strict=True))
    value, d, n, expected = (_padded(list(c), np.float32) for c in columns[:4])
    found, flag = vector("v_div_scale_f32", [value, d, n], np.float32, "m")
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))
    np.testing.assert_array_equal(flag, _padded(list(columns[4]), np.bool_))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("of", ["numerator", "denominator"])
def test_div_scale_decides_by_exponents(of: str, dtype: Any) -> None:
    wide = dtype is np.float64
    n, d = _near_thresholds(dtype)
    value = n if of == "numerator" else d
    raw = [v.view(_UINT[dtype]).tolist() for v in (value, d, n)]
    name = f"v_div_scale_{'f64' if wide else 'f32'}"
    found, flag = vector(name, [value, d, n], dtype, "m")
    pairs = [_scaled(*row, wide=wide) for row in zip(*raw, strict=True)]
    bits = found.view(_UINT[dtype]).tolist()
    wrong = [
        (*(hex(r[i]) for r in raw), hex(bits[i]))
        for i, (expected, _) in enumerate(pairs)
        if (not np.isnan(found[i]) if expected is None else bits[i] != expected)
    ]
    check(not wrong, f"{len(wrong)} differ, first value, denominator, numerator: {wrong[:3]}")
    np.testing.assert_array_equal(flag, [f for _, f in pairs])


def _near_thresholds(dtype: Any) -> tuple[Any, Any]:
    """Numerators and denominators: any floats, and exponents around those that decide."""
    n, d = (random_floats(seed, dtype)[-_SAMPLES:].copy() for seed in (31, 32))
    info = np.finfo(dtype)
    gap, low = (768, 53) if dtype is np.float64 else (96, 24)
    rng = np.random.default_rng(33)
    count = len(n) // 2
    en, ed = (rng.integers(0, 2 * info.maxexp - 1, count) for _ in range(2))
    kind = rng.integers(0, 4, count)
    near = rng.integers(-2, 3, count)
    en = np.where(kind == 0, ed + gap + near, np.where(kind == 1, ed - gap + near, en))
    en = np.where(kind == 2, low + near, en)
    ed = np.where(kind == 3, 2 * info.maxexp - 3 + near, ed)
    for values, exponent in ((n, en), (d, ed)):
        raw = values[:count].view(_UINT[dtype])
        keep = ~(_UINT[dtype](2 * info.maxexp - 1) << _UINT[dtype](info.nmant))
        limited = exponent.clip(0, 2 * info.maxexp - 1).astype(_UINT[dtype])
        raw[:] = raw & keep | limited << _UINT[dtype](info.nmant)
    return n, d


def test_div_fixup_gives_the_vendors_nan_and_underflows_by_exponents() -> None:
    # src: RDNA3 ISA manual, V_DIV_FIXUP_F32 and _F64; the NaN's sign: rocjitsu, division.h.
    q, d, n = (
        [0.75, 0.75, 0.75, 0.75],
        [0.0, np.inf, -(2.0**100), 2.0**50],
        [0.0, -np.inf, 2.0**-120, 2.0**-100],
    )
    found = vector("v_div_fixup_f32", [_padded(v, np.float32) for v in (q, d, n)], np.uint32)
    check(found[:4].tolist() == [0xFFC00000, 0xFFC00000, 0x80000000, 0x3F400000], str(found[:4]))
    q, d, n = [0.75, 0.75, 0.75], [0.0, 2.0**600, 2.0**500], [-0.0, -(2.0**-600), 2.0**-570]
    found = vector("v_div_fixup_f64", [_padded(v, np.float64) for v in (q, d, n)], np.uint64)
    expected = [0xFFF8 << 48, 1 << 63, 0x3FE8 << 48]
    check(found[:3].tolist() == expected, str([hex(v) for v in found[:3]]))


def _one_wave(cpu: str, lanes: int, **registers: Any) -> Waves:
    w = Waves(1, lanes, 160, 0, 1, FAMILIES[cpu].null)
    w.sgpr[EXEC : EXEC + 2] = 0xFFFFFFFF
    w.set_mode(np.array([PLAIN_MODE], np.uint32))
    w.select(np.arange(1))
    for name, value in registers.items():
        w.vgpr[int(name[1:])] = value
    return w


def _run(w: Waves, cpu: str, *words: int) -> Waves:
    run = bind(decode(FAMILIES[cpu], [*words, 0, 0, 0], 0, w.lanes))
    if run is None:
        raise AssertionError("no meaning")
    run(w)
    return w


@pytest.mark.parametrize("cpu", ["gfx1100", "gfx1201"])
@pytest.mark.parametrize("lanes", [32, 64])
def test_permlane64_swaps_halves_and_is_a_nop_in_waves_of_32(cpu: str, lanes: int) -> None:
    # src: RDNA3 and RDNA4 ISA manuals: "treated as scalar NOP in wave32"; tinygrad, test_vop1.py.
    lane = np.arange(lanes, dtype=np.uint32)
    w = _run(_one_wave(cpu, lanes, v0=7, v1=100 + lane), cpu, 0x7E00CF01)  # v_permlane64_b32 v0, v1
    expected = 100 + (lane ^ 32) if lanes == 64 else np.full(32, 7)
    np.testing.assert_array_equal(w.vgpr[0][0], expected)


@pytest.mark.parametrize(
    ("cpu", "above"), [("gfx1100", 0xABCD), ("gfx1201", 0xABCD), ("gfx942", 0)]
)
def test_saturated_bytes_leave_the_other_half(cpu: str, above: int) -> None:
    # src: rocjitsu, measured conversions of gfx1201: the result is 16 bits wide (b16), as LLVM has
    # it (VOP1Instructions.td, VOP1Inst_t16); CDNA3 ISA manual: 32 bits.
    opcode = {"gfx1100": 0x7E00C501, "gfx1201": 0x7E00C501, "gfx942": 0x7E009F01}[cpu]
    source = [0x00FF0100, 0x8000007F, 0xFFFF0001, 0x7FFF0000]
    bytes_of = [0xFFFF, 0x007F, 0x0001, 0xFF00]
    lanes = FAMILIES[cpu].lane_counts[0]
    w = _one_wave(cpu, lanes, v0=0xABCD1234, v1=np.resize(np.array(source, np.uint32), lanes))
    _run(w, cpu, opcode)
    np.testing.assert_array_equal(w.vgpr[0][0][:4], [above << 16 | b for b in bytes_of])


_RDNA = {*range(0x101, 0x110), *range(0x111, 0x120), *range(0x121, 0x130), 0x140, 0x141}
_CONTROLS = {
    "gfx1100": _RDNA | set(range(0x150, 0x170)), "gfx1201": _RDNA | set(range(0x150, 0x170)),
    "gfx1030": _RDNA | set(range(0x150, 0x170)),
    "gfx942": _RDNA | {0x130, 0x134, 0x138, 0x13C, 0x142, 0x143} | set(range(0x150, 0x160)),
}  # fmt: skip
# src: LLVM SIDefines.h, DppCtrl, and AMDGPUAsmParser.cpp: wave shifts and row_bcast before gfx10,
# row_share and row_xmask from gfx10 on, row_newbcast on gfx90a and later CDNA.


@pytest.mark.parametrize("cpu", _CONTROLS)
def test_a_family_has_its_own_lane_permutations(cpu: str) -> None:
    lanes = FAMILIES[cpu].lane_counts[0]
    usable = set()
    for control in range(0x100, 0x200):
        extra = 1 | control << 8 | 1 << 19 | 0xFF << 24
        w = _one_wave(cpu, lanes, v1=np.arange(lanes))
        try:
            _run(w, cpu, 0x7E0002FA, extra)  # v_mov_b32_dpp v0, v1
        except UnsupportedOperand:
            continue
        usable.add(control)
    wrong = usable ^ _CONTROLS[cpu]
    check(not wrong, f"{cpu}: {sorted(map(hex, wrong))}")


_CLAMPED = {
    "v_add_co_u32": lambda a, b, c: a + b, "v_sub_co_u32": lambda a, b, c: a - b,
    "v_subrev_co_u32": lambda a, b, c: b - a, "v_add_co_ci_u32": lambda a, b, c: a + b + c,
    "v_sub_co_ci_u32": lambda a, b, c: a - b - c, "v_subrev_co_ci_u32": lambda a, b, c: b - a - c,
    "v_addc_co_u32": lambda a, b, c: a + b + c, "v_subb_co_u32": lambda a, b, c: a - b - c,
    "v_subbrev_co_u32": lambda a, b, c: b - a - c,
}  # fmt: skip
_EDGES = [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF, 12345]


@pytest.mark.parametrize("name", _CLAMPED)
def test_clamp_of_sums_with_carry(name: str) -> None:
    # src: tinygrad, test/amd/hw: the result saturates, the carry is that of the sum as it is.
    if not any(entry_of(c.family, name, ("VOP3SD", "VOP3")) for c in CHIPS):
        raise AssertionError(f"no family has {name}")
    rows = [(a, b, c) for a in _EDGES for b in _EDGES for c in (0, 1)]
    a, b, carry = (np.array(column, np.uint32) for column in zip(*rows, strict=True))
    takes = "_ci_" in name or name.startswith(("v_addc", "v_subb_", "v_subbrev"))
    sources = [a, b, carry == 1] if takes else [a, b]
    found, out = vector(name, sources, np.uint32, "m", clamp=1)
    exact = [_CLAMPED[name](*row) for row in rows]
    top = 0xFFFFFFFF
    np.testing.assert_array_equal(found, [min(max(v, 0), top) for v in exact])
    np.testing.assert_array_equal(out, [not 0 <= v <= top for v in exact])
