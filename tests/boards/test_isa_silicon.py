"""What silicon does not forgive: order, copies, lanes that are off, crooked places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from boards.amd.isa.decode import decode
from boards.amd.isa.families import FAMILIES
from boards.amd.wave.execute import bind, execute
from boards.amd.wave.operands import UnsupportedOperand
from boards.amd.wave.state import EXEC, Waves
from boards.amd.wave.types import Dispatch, Strict, WaveFault
from tests.boards.isa_vectors import PLAIN_MODE, vector
from tests.boards.wave_harness import ARGS, CHIPS, FlatMemory, kernel, launch
from tests.support import check

_CODE_VA = 0x10000
NOP, BARRIER, LDS_DONE = 0xBF800000, 0xBFBD0000, 0xBF89FC07  # s_waitcnt lgkmcnt(0)
_IDLE = 0xBF8A0000  # s_wait_idle
_SGPRS = 2


def violations(words: Sequence[int], cpu: str = "gfx1100", **changes: object) -> set[str]:
    """Kinds of violations of two waves of a workgroup; s[0:1] is the address of 4 KiB."""
    family = FAMILIES[cpu]
    memory = FlatMemory()
    buffer = memory.add(np.zeros(4096, np.uint8))
    end = 0xBF810000 if cpu in ("gfx942", "gfx1030") else 0xBFB00000
    memory.place(_CODE_VA, np.array([*words, end, *[NOP] * 4], np.uint32))
    lanes = family.lane_counts[0]
    dispatch = Dispatch(
        _CODE_VA, (1, 1, 1), (2 * lanes, 1, 1), 0xF0 << 12 | 7, _SGPRS << 1, rsrc3=7, lanes=lanes,
        lds_bytes=256, user_sgprs=(buffer & 0xFFFFFFFF, buffer >> 32), max_steps=10_000,
    )  # fmt: skip
    report = execute(replace(dispatch, **changes), memory, Strict(), family)
    return {f"{f.kind} {f.what}" for f in report.violations}


# v_mov_b32 v2, 1; v_and_b32 v1, 31, v0; v_lshlrev_b32 v1, 2, v1: v1 is 4 * lane in both waves
OWN_DWORD = [0x7E040281, 0x3602009F, 0x30020282]
STORE, LOAD = [0xD8340000, 0x00000201], [0xD8D80000, 0x03000001]  # [v1] = v2; v3 = [v1]
FIRST_WAVE = [0x7C9800A0, 0xBFA30002]  # v_cmp_gt_u32 vcc_lo, 32, v0; s_cbranch_vccz +2 dwords
SECOND_WAVE = [0x7C9800A0, 0xBFA40002]  # the same; s_cbranch_vccnz


# v_lshrrev_b32 v4, 5, v0; v_lshlrev_b32 v4, 1, v4; v_add_nc_u32 v4, v4, v1: a half for each wave
_OWN_HALF = [*OWN_DWORD, 0x32080085, 0x30080881, 0x4A080304]
_STORE_HALF, _LOAD_HALF = [0xD87C0000, 0x00000204], [0xD8F00000, 0x03000004]
_STORE_BYTE, _LOAD_BYTE = [0xD8780000, 0x00000204], [0xD8E80000, 0x03000004]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([*_STORE_HALF, LDS_DONE, *_LOAD_HALF], set()),
        ([*_STORE_HALF, LDS_DONE, *LOAD], {"LDS race LDS"}),
        ([*_STORE_BYTE, LDS_DONE, *_LOAD_BYTE], set()),
        ([*_STORE_BYTE, LDS_DONE, *_LOAD_HALF], {"unwritten LDS LDS"}),
        ([*_STORE_HALF, *STORE], {"LDS race LDS"}),
    ],
)
def test_bytes_of_a_dword_are_apart(words: list[int], found: set[str]) -> None:
    check(violations([*_OWN_HALF, *words]) == found, str(violations([*_OWN_HALF, *words])))


# v[2:3] = s[0:1]; flat_load v4; global_load v5
_BASE = [0x7E040200, 0x7E060201]
_TWO_LOADS = {
    "gfx942": [0xDC500000, 0x04000002, 0xDC508000, 0x057F0002],
    "gfx1100": [0xDC500000, 0x047C0002, 0xDC520000, 0x057C0002],
}
_ONE_LEFT = {"gfx942": 0xBF8C0071, "gfx1100": 0xBF890407}  # s_waitcnt vmcnt(1) lgkmcnt(0)
_NONE_LEFT = {"gfx942": 0xBF8C0070, "gfx1100": 0xBF890007}
_USE = 0x7E0C0304  # v_mov_b32 v6, v4


@pytest.mark.parametrize("cpu", _TWO_LOADS)
def test_flat_loads_of_gfx9_come_in_any_order(cpu: str) -> None:
    words = [*_BASE, *_TWO_LOADS[cpu]]
    late = {"wait count v4 before vmcnt"} if cpu == "gfx942" else set()
    check(violations([*words, _ONE_LEFT[cpu], _USE], cpu) == late, f"not {late}")
    check(not violations([*words, _NONE_LEFT[cpu], _USE], cpu), "0 left")


# s_mov_b64 s[4:5], src_shared_base; v2 = 0; v3 = s5: the first bytes of LDS as an address
_LDS_BASE = [0xBE8401EB, 0x7E040280, 0x7E060205]
_FLAT_LOAD, _VM_DONE = [0xDC500000, 0x047C0002], 0xBF8903F7  # v4 = [v[2:3]]; s_waitcnt vmcnt(0)


@pytest.mark.parametrize(
    ("base", "wait", "late"),
    [
        (_BASE, _VM_DONE, set()),
        (_BASE, LDS_DONE, {"vmcnt"}),
        (_LDS_BASE, _VM_DONE, {"lgkmcnt"}),
        (_LDS_BASE, _NONE_LEFT["gfx1100"], set()),
    ],
)
def test_a_flat_load_of_memory_comes_with_the_memory_counter(
    base: list[int], wait: int, late: set[str]
) -> None:
    # src: AMD's own copy kernels (ROCr 5.2 and 6.1) wait for vmcnt alone where no lane reaches LDS
    first = [*OWN_DWORD, *STORE, LDS_DONE]
    found = violations([*first, *base, *_FLAT_LOAD, wait, _USE], workgroup=(32, 1, 1))
    check(found == {f"wait count v4 before {counter}" for counter in late}, str(found))


_LDS_LOAD = [0xD8D80000, 0x04000001]  # ds_load_b32 v4, v1


@pytest.mark.parametrize(
    ("loads", "late"),
    [
        ([0xDC520000, 0x047C0002] * 2, set()),  # global_load_b32 v4, v[2:3]
        ([*_LDS_LOAD, 0xDC520000, 0x047C0002], {"wait count v4 before lgkmcnt"}),
        ([0xDC500000, 0x047C0002, *_LDS_LOAD], {"wait count v4 before vmcnt"}),  # flat_load_b32
    ],
)
def test_loads_of_one_register_keep_order_in_one_counter(loads: list[int], late: set[str]) -> None:
    prepare = [*OWN_DWORD, *STORE, LDS_DONE, *_BASE]
    found = violations([*prepare, *loads, _NONE_LEFT["gfx1100"]], workgroup=(32, 1, 1))
    check({f for f in found if "vmcnt" in f or "lgkm" in f} >= late, f"{found}, not {late}")
    check(bool(found) == bool(late), str(found))


def test_an_answer_of_a_message_is_waited_for() -> None:
    ask, use = 0xBE844C83, 0xBE860004  # s_sendmsg_rtn_b32 s4, MSG_RTN_GET_REALTIME; s6 = s4
    check(violations([ask, use]) == {"wait count s4 before lgkmcnt"}, "not waited for")
    for wait in (LDS_DONE, _IDLE):
        check(not violations([ask, wait, use]), "waited for")


def test_a_scalar_load_drops_low_bits_of_its_address() -> None:
    found = violations([0xF4000100, 0xF8000002, LDS_DONE])  # s_load_b32 s4, s[0:1], 0x2
    check(found == {"misaligned 2 bytes off"}, str(found))


def test_64_bit_atomics_in_lds_are_aligned_to_their_size() -> None:
    add = [0x7E020284, 0x7E040281, 0x7E060281, 0xD9000000, 0x00000201]  # v1 = 4; [v1] += v[2:3]
    with pytest.raises(WaveFault, match="unaligned LDS at 0x4"):
        violations(add)


@pytest.mark.parametrize(
    ("cpu", "words", "what"),
    [
        ("gfx1100", [0xBE850100], "s5 and 1 more"),  # s_mov_b64 s[5:6], s[0:1]
        ("gfx942", [0x7E0A7102], "v5 and 1 more"),  # v_mov_b64 v[5:6], v[2:3]
        ("gfx1100", [0xF4080180, 0xF8000000], "s6 and 3 more"),  # s_load_b128 s[6:9], s[0:1], 0
    ],
)
def test_registers_in_a_row_begin_where_they_must(cpu: str, words: list[int], what: str) -> None:
    with pytest.raises(WaveFault, match=f"unsupported.*wrong place: {what}"):
        violations(words, cpu)


# v_mov_b32 v3, v0; v_mov_b32_dpp v4, v3 row_shr:1 with and without bound_ctrl; v_mov_b32 v5, v4
_SHIFTED, _SHIFTED_BOUND = [0x7E0802FA, 0xFF011103], [0x7E0802FA, 0xFF091103]
_EVEN, _ALL_ON = [0xBEFE00FF, 0x55555555], 0xBEFE00C1  # s_mov_b32 exec_lo, 0x55555555 or -1
_FETCH_OFF = [0x7E0802FA, 0xFF0D1103]


def test_lanes_that_dpp_leaves_out_stay_undefined() -> None:
    copy, use = 0x7E060300, 0x7E0A0304
    check(violations([copy, *_SHIFTED, use]) == {"uninitialised v4"}, "lanes 0 and 16")
    check(not violations([copy, *_SHIFTED_BOUND, use]), "bound_ctrl writes all lanes")
    some = [*_EVEN, copy, *_SHIFTED_BOUND]
    check(not violations(some), "lanes that are off give zero")
    check(violations([*_EVEN, copy, *_FETCH_OFF]) == {"uninitialised v3"}, "fi reads odd lanes")


def _alone(words: list[int], cpu: str = "gfx1100", lanes: int = 32) -> Waves:
    """One wave with the lane's number in v0, its offset from the end in v1, all lanes on."""
    w = Waves(1, lanes, 48, 0, 1, FAMILIES[cpu].null)
    w.sgpr[EXEC : EXEC + 2] = 0xFFFFFFFF
    w.set_mode(np.array([PLAIN_MODE], np.uint32))
    w.select(np.arange(1))
    lane = np.arange(lanes, dtype=np.uint32)
    w.vgpr[0], w.vgpr[1] = lane, 4 * (lanes - 1 - lane)
    return w


def _step(w: Waves, words: list[int], cpu: str = "gfx1100") -> Waves:
    run = bind(decode(FAMILIES[cpu], [*words, 0, 0, 0], 0, w.lanes))
    if run is None:
        raise AssertionError("no meaning")
    run(w)
    return w


@pytest.mark.parametrize(
    ("cpu", "reach"), [("gfx1100", 32), ("gfx1030", 32), ("gfx1201", 64), ("gfx942", 64)]
)
def test_how_far_permutations_of_64_lanes_reach(cpu: str, reach: int) -> None:
    backward, forward = (0xD87E0000, 0xD87C0000) if cpu == "gfx942" else (0xDACC0000, 0xDAC80000)
    lane = np.arange(64)
    source = (lane & -reach) + (63 - lane) % reach
    for opcode in (backward, forward):  # the permutation is its own inverse
        w = _step(_alone([], cpu, 64), [opcode, 0x03000001], cpu)
        np.testing.assert_array_equal(w.vgpr[3][0], source)


def test_dpp8_reads_zero_from_lanes_that_are_off() -> None:
    w = _alone([])
    w.sgpr[EXEC] = 0xFFFFFF0F
    w.select(np.arange(1))
    w.vgpr[3], w.vgpr[4] = 100 + w.vgpr[0], 7
    # v_mov_b32_dpp v4, v3 dpp8:[7,6,5,4,3,2,1,0]
    _step(w, [0x7E0802E9, 0x03 | 0b000_001_010_011_100_101_110_111 << 8])
    lane = np.arange(32)
    source = lane ^ 7
    off = (lane >= 4) & (lane < 8)
    expected = np.where(off[source], 0, 100 + source)
    np.testing.assert_array_equal(w.vgpr[4][0], np.where(off, 7, expected))


def test_wmma_needs_its_factors_twice() -> None:
    words = [0xCC404010, 0x1C421100]  # v_wmma_f32_16x16x16_f16 v[16:23], v[0:7], v[8:15], v[16:23]
    w = _alone([])
    w.vgpr[:24] = 0
    w.vgpr[3, 0, 5] = w.vgpr[3, 0, 21] = 0x3C00
    _step(w, words)
    w.vgpr[3, 0, 21] = 0x4000
    with pytest.raises(UnsupportedOperand, match="no copies"):
        _step(w, words)


def test_a_field_of_the_cycle_counter() -> None:
    w = _alone([])
    w.steps = 0xABC12345
    _step(w, [0xB884391D])  # s_getreg_b32 s4, hwreg(HW_REG_SHADER_CYCLES, 4, 8)
    check(int(w.sgpr[4, 0]) == 0x34, hex(int(w.sgpr[4, 0])))


_VALUES = 256
_WHOLE = {"hi_ab": 3, "hi_c": 1}


def test_packed_and_mixed_halves_follow_the_mode() -> None:
    small = np.full(_VALUES, 0x00010001, np.uint32)  # two denormals
    flushing, upward = PLAIN_MODE & ~0xC0, PLAIN_MODE | 1 << 2
    total = vector("v_pk_add_f16", [small, small], np.uint32, **_WHOLE)
    check((total == 0x00020002).all(), hex(int(total[0])))
    flushed = vector("v_pk_add_f16", [small, small], np.uint32, mode=flushing, **_WHOLE)
    check(not flushed.any(), hex(int(flushed[0])))
    one = np.ones(_VALUES, np.float32)
    halves = {"hi_ab": 2, "hi_c": 0}  # source 1 is a half
    mixed = vector("v_fma_mix_f32", [one, small, one * 0], np.float32, **halves)
    check((mixed == 2.0**-24).all(), str(mixed[0]))
    mixed = vector("v_fma_mix_f32", [one, small, one * 0], np.float32, mode=flushing, **halves)
    check(not mixed.any(), str(mixed[0]))
    with pytest.raises(UnsupportedOperand, match="v_pk_add_f16 in a directed"):
        vector("v_pk_add_f16", [small, small], np.uint32, mode=upward, **_WHOLE)


@pytest.mark.parametrize(
    ("name", "modifiers"),
    [("v_add3_u32", {"neg": 1}), ("v_add3_u32", {"abs": 4}), ("v_add3_u32", {"omod": 1})],
)
def test_modifiers_of_floats_are_refused_elsewhere(name: str, modifiers: dict[str, int]) -> None:
    sources = [np.zeros(_VALUES, np.uint32)] * 3
    with pytest.raises(UnsupportedOperand, match="modifiers of v_add3_u32"):
        vector(name, sources, np.uint32, **modifiers)


_UNALIGNED = kernel(
    """  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %s = alloca [64 x i8], addrspace(5)
  %i = and i32 %t, 15
  %q = getelementptr i8, ptr addrspace(5) %s, i32 %i
  %g = getelementptr i32, ptr addrspace(1) %a, i32 %t
  %v = load i32, ptr addrspace(1) %g
  store volatile i32 %v, ptr addrspace(5) %q, align 1
  %q4 = getelementptr i8, ptr addrspace(5) %q, i32 4
  store volatile i32 %t, ptr addrspace(5) %q4, align 1
  %q1 = getelementptr i8, ptr addrspace(5) %q, i32 1
  %r = load volatile i32, ptr addrspace(5) %q1, align 1
  %h = getelementptr i32, ptr addrspace(1) %c, i32 %t
  store i32 %r, ptr addrspace(1) %h
  ret void""",
    f"{ARGS} %a, {ARGS} %c",
    top="declare i32 @llvm.amdgcn.workitem.id.x()\n",
)


@pytest.mark.parametrize("cpu", CHIPS)
def test_unaligned_scratch_stays_in_its_lane(cpu: str) -> None:
    a = np.random.default_rng(1).integers(0, 1 << 32, 64, np.uint32)
    c = np.zeros(64, np.uint32)
    launch(_UNALIGNED, [a, c], (1, 1, 1), (64, 1, 1), cpu=cpu)
    np.testing.assert_array_equal(c, a >> 8 | np.arange(64, dtype=np.uint32) << 24)


def test_a_wave_that_ends_does_not_hold_up_the_others() -> None:
    end, use = 0xBFB00000, 0x7E0A0304  # s_endpgm; v_mov_b32 v5, v4
    found = violations([*SECOND_WAVE, end, NOP, BARRIER, use])
    check(found == {"uninitialised v4"}, "nobody came past the barrier")


def test_one_wave_may_write_a_dword_in_parts() -> None:
    second_half = [0xD87C0002, 0x00000204]  # ds_store_b16 v4, v2 offset:2
    two = 0x7E040282  # v_mov_b32 v2, 2
    apart = [*FIRST_WAVE, *_STORE_HALF, *FIRST_WAVE, *second_half, LDS_DONE, two]
    found = violations([*_OWN_HALF, *apart, *SECOND_WAVE, 0xD87C0000, 0x00000201])
    check(found == {"LDS race LDS"}, f"{found}: the first half is still the first wave's")


@pytest.mark.parametrize(("offset", "step"), [(0xC060, 3), (0xC460, -3)])
def test_swizzles_that_rotate(offset: int, step: int) -> None:
    w = _step(_alone([]), [0xD8D40000 | offset, 0x03000000])  # ds_swizzle_b32 v3, v0
    np.testing.assert_array_equal(w.vgpr[3][0], (np.arange(32) + step) % 32)
    with pytest.raises(UnsupportedOperand, match="FFT"):
        _step(_alone([]), [0xD8D40000 | 0xE000, 0x03000000])


@pytest.mark.parametrize(("opcode", "up"), [(0xD8900000, False), (0xD88C0000, True)])
def test_counters_that_wrap(opcode: int, up: bool) -> None:
    """ds_dec_rtn_u32 and ds_inc_rtn_u32 v3, v1, v2 with a limit of 5."""
    w = Waves(1, 32, 48, 256, 1)
    w.sgpr[EXEC] = 0xFFFFFFFF
    w.select(np.arange(1))
    before = np.arange(32, dtype=np.uint32) % 8
    w.lds[:32], w.vgpr[1, 0], w.vgpr[2] = before, 4 * np.arange(32), 5
    _step(w, [opcode, 0x03000201])
    if up:
        wanted = [0 if old >= 5 else old + 1 for old in before.tolist()]
    else:
        wanted = [5 if old == 0 or old > 5 else old - 1 for old in before.tolist()]
    np.testing.assert_array_equal(w.lds[:32], wanted)
    np.testing.assert_array_equal(w.vgpr[3][0], before)


def test_a_packed_clamp_is_from_0_to_1() -> None:
    a = np.array([-2, 0.25, 3, np.nan] * (_VALUES // 2), np.float16)
    total = vector("v_pk_add_f16", [a.view(np.uint32)] * 2, np.uint32, clamp=1, **_WHOLE)
    halves = np.ascontiguousarray(total).view(np.float16)
    np.testing.assert_array_equal(halves, [0, 0.5, 1, 0] * (_VALUES // 2))


def test_a_literal_of_f64_is_its_upper_half() -> None:
    w = _alone([])
    w.vgpr[2], w.vgpr[3] = 0, 0x40000000  # 2.0
    _step(w, [0xD7280004, 0x0001FF02, 0x40080000])  # v_mul_f64 v[4:5], v[2:3], 3.0
    check(int(w.vgpr[4, 0, 0]) == 0 and int(w.vgpr[5, 0, 0]) == 0x40180000, "not 6.0")
