"""What the executor reports or stops at: faults with their place, and the strict violations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from boards.amd.wave.execute import execute
from boards.amd.wave.types import LENIENT, Dispatch, MemoryFault, Strict, WaveFault
from tests.boards import isa_programs as programs
from tests.boards.wave_harness import FlatMemory, Loaded, compile_object, launch
from tests.support import check

_NOP, _BARRIER, _END, _WAITCNT = 0xBF800000, 0xBFBD0000, 0xBFB00000, 0xBF890000
_CODE_VA = 0x10000
_EXIT = [_END, *[_NOP] * 4]
_RSRC = {"rsrc1": 0xF0 << 12 | 7, "rsrc2": 2 << 1}


def _patched(ir: str, match: int, mask: int) -> Loaded:
    """A compiled kernel with every dword that matches replaced by s_nop."""
    loaded = Loaded(compile_object(ir))
    words = np.frombuffer(loaded.code, np.uint32).copy()
    hits = words & np.uint32(mask) == np.uint32(match)
    check(hits.any(), "nothing to patch")
    words[hits] = _NOP
    end = loaded.entry + len(loaded.code)
    loaded.image[loaded.entry : end] = words.tobytes()
    return loaded


def _run(words: list[int], strict: Strict = LENIENT, **changes: object):
    memory = FlatMemory()
    memory.place(_CODE_VA, np.array([*words, *_EXIT], np.uint32))
    dispatch = Dispatch(_CODE_VA, (1, 1, 1), (32, 1, 1), user_sgprs=(0, 0), **_RSRC)
    return execute(replace(dispatch, **changes), memory, strict)


def test_a_load_used_before_its_wait_count_is_reported() -> None:
    loaded = _patched(programs.REDUCE, _WAITCNT, 0xFFFF0000)
    a, c = np.ones((2, 256), np.float32), np.zeros(2, np.float32)
    report = launch("", [a, c], (2, 1, 1), (256, 1, 1), loaded=loaded)
    kinds = {violation.kind for violation in report.violations}
    check("wait count" in kinds, f"found {kinds}")
    first = next(f for f in report.violations if f.kind == "wait count")
    check("lgkmcnt" in first.what or "vmcnt" in first.what, first.what)


def test_a_missing_barrier_is_a_race() -> None:
    loaded = _patched(programs.REDUCE, _BARRIER, 0xFFFFFFFF)
    a, c = np.ones((2, 256), np.float32), np.zeros(2, np.float32)
    report = launch("", [a, c], (2, 1, 1), (256, 1, 1), loaded=loaded)
    check(any(f.kind == "LDS race" for f in report.violations), str(report.violations))
    report = launch("", [a, c], (2, 1, 1), (256, 1, 1), loaded=loaded, strict=LENIENT)
    check(not report.violations)


# s_mov_b32 s4 or s5, 5; s_bfe_i64 s[6:7], s[4:5], literal: offset in 5:0, width in 22:16
@pytest.mark.parametrize(
    ("written", "control", "missing"),
    [
        (4, 0x10_0000, set()),
        (4, 0x10_0010, set()),
        (4, 0x10_0011, {"s5"}),
        (5, 0x08_0020, set()),
        (5, 0x08_001F, {"s4"}),
        (5, 0x40_0021, set()),
        (5, 0x40_0000, {"s4"}),
    ],
)
@pytest.mark.parametrize("opcode", [0x28, 0x29])
def test_a_bit_field_reads_only_the_dwords_it_lies_in(
    written: int, control: int, missing: set[str], opcode: int
) -> None:
    # src: RDNA3 ISA, S_BFE_I64: (S0 >> S1[5:0]) & ((1 << S1[22:16]) - 1)
    fill = 0xBE800085 | written << 16
    extract = [0x80000000 | opcode << 23 | 6 << 16 | 0xFF << 8 | 4, control]
    report = _run([fill, *extract], Strict())
    check({f.what for f in report.violations} == missing, str(report.violations))


def test_uninitialised_registers_are_reported() -> None:
    # v_add_f32_e32 v1, v2, v0; s_mov_b32 s5, s9
    report = _run([0x06020102, 0xBE850009], Strict())
    found = {(f.kind, f.what) for f in report.violations}
    check(found == {("uninitialised", "v2"), ("uninitialised", "s9")}, str(found))


def test_an_unmapped_access_names_wave_lane_address_and_pc() -> None:
    a = np.zeros(640, np.int32)
    c = np.zeros(600, np.int32)  # the last 40 results have no home
    with pytest.raises(WaveFault) as caught:
        launch(programs.SCRATCH, [a, c], (10, 1, 1), (64, 1, 1))
    fault = caught.value
    check((fault.kind, fault.access) == ("unmapped", "write"), str(fault))
    check((fault.wave, fault.lane) == (600 // 32, 600 % 32), str(fault))
    check(isinstance(fault.__cause__, MemoryFault) and fault.va == fault.__cause__.va)
    check(fault.text.endswith("store_b32") and fault.pc > 0, str(fault))


def test_a_read_only_buffer_refuses_a_store() -> None:
    memory = FlatMemory()
    memory.add = lambda data, **_: FlatMemory.add(memory, data, writable=False)
    with pytest.raises(WaveFault, match="read-only write"):
        launch(programs.COLLATZ, [np.zeros(64, np.int32)], (1, 1, 1), (64, 1, 1), memory=memory)


def test_an_unknown_instruction_stops_with_its_bytes() -> None:
    with pytest.raises(WaveFault, match=r"illegal instruction.*ffffffff"):
        _run([0xFFFFFFFF])


def test_a_known_instruction_without_a_meaning_stops_with_its_text() -> None:
    with pytest.raises(WaveFault, match=r"unsupported.*s_movrelsd_2_b32 s0, s0 \(be804400\)"):
        _run([0xBE804400])


def test_a_trap_stops_the_wave_with_its_number() -> None:
    with pytest.raises(WaveFault, match=r"trap in wave 0 lane 0, pc 0x10000, s_trap 3"):
        _run([0xBF900003])


def test_an_endless_loop_is_stopped() -> None:
    with pytest.raises(WaveFault, match="endless"):
        _run([0xBFA0FFFF], max_steps=10_000)  # s_branch to itself


def test_a_register_beyond_the_allocation_is_refused() -> None:
    with pytest.raises(WaveFault, match="out of range"):
        _run([0x7E0002FF, 1, 0x7F8A0200])  # v_mov_b32 v0, 1; v_mov_b32 v197, v0


def test_lds_beyond_the_workgroups_is_refused() -> None:
    with pytest.raises(WaveFault, match=r"out of range LDS at 0x100 .*256 bytes"):
        # v_mov_b32 v1, 0x100; ds_store_b32 v1, v0
        _run([0x7E0202FF, 0x100, 0xD8340000, 0x00000001], lds_bytes=256)


def test_an_address_in_lds_wraps_with_its_offset() -> None:
    """src: LLVM GCNSubtarget.h, hasUsableDSOffset(): from gfx7 on, of negative registers, too."""
    # v_mov_b32 v1, -16; ds_store_b32 v1, v0 offset:16
    _run([0x7E0202D0, 0xD8340010, 0x00000001], lds_bytes=256)
    with pytest.raises(WaveFault, match=r"out of range LDS at 0xfffffff8 .*256 bytes"):
        _run([0x7E0202D0, 0xD8340008, 0x00000001], lds_bytes=256)


def test_code_that_is_not_mapped_is_a_fault() -> None:
    with pytest.raises(WaveFault, match="unmapped execute at 0x20000"):
        _run([_END], entry=0x20000)


def test_waves_that_spin_do_not_starve_the_one_they_wait_for() -> None:
    # Wave 0 clears a word of LDS and spins on it; wave 1, at a higher address, sets it.
    words = [
        0x7E020280, 0x7E060281,  # v1 = 0, v3 = 1
        0x7C9800A0,  # v_cmp_gt_u32_e32 vcc_lo, 32, v0
        0xBFA30008,  # s_cbranch_vccz -> the other store
        0xD8340000, 0x00000101,  # ds_store_b32 v1, v1
        0xD8D80000, 0x02000001,  # ds_load_b32 v2, v1
        0xBF89FC07,  # s_waitcnt lgkmcnt(0)
        0x7C940480,  # v_cmp_eq_u32_e32 vcc_lo, 0, v2
        0xBFA4FFFB,  # s_cbranch_vccnz -> the load
        _END,
        0xD8340000, 0x00000301,  # ds_store_b32 v1, v3
        _END,
    ]  # fmt: skip
    memory = FlatMemory()
    memory.place(_CODE_VA, np.array([*words, *_EXIT], np.uint32))
    dispatch = Dispatch(_CODE_VA, (1, 1, 1), (64, 1, 1), lds_bytes=256, max_steps=200_000, **_RSRC)
    report = execute(dispatch, memory, LENIENT)
    check(report.waves == 2 and report.steps > 4096, f"{report.steps} steps: wave 0 never spun")


def test_partial_workgroups_have_their_lanes_off() -> None:
    out = np.full(64, -1, np.int32)
    launch(programs.COLLATZ, [out], (1, 1, 1), (64, 1, 1), items=(40, 1, 1))
    check((out[:40] >= 0).all() and (out[40:] == -1).all(), str(out))


# 64 lanes: v2 is 0, v[3:4] the code's address; s_cmp_lg_u32 s4, 0 of v_readfirstlane_b32 s4, v0.
_TWO_WAVES = [0x7E080500, 0x7E040280, 0x7E0602FF, _CODE_VA, 0x7E080280, 0xBF078004]
_DS_LOAD = [0xD8D80000, 0x01000002]
"""ds_load_b32 v1, v2"""
_HALVES = [0xDC820000, 0x017C0003, 0xDC8E0000, 0x017C0003]
"""global_load_d16_b16 v1, v[3:4]; global_load_d16_hi_b16 v1, v[3:4]"""
_TO_HALVES, _PAST_HALVES = 0xBFA20003, 0xBFA00004
"""s_cbranch_scc1, over a DS load and a branch; s_branch, over the two loads."""


def _loads(words: list[int]) -> list[str]:
    strict = replace(LENIENT, wait_counts=True)
    changes = {"workgroup": (64, 1, 1), "lds_bytes": 256}
    report = _run([*words, _WAITCNT], strict, **changes)
    return [violation.what for violation in report.violations if violation.kind == "wait count"]


def test_loads_of_one_kind_keep_order_whatever_another_wave_waits_for() -> None:
    """# src: RDNA3 ISA 5.5: loads return in order; LLVM FLATInstructions.td, TiedSourceNotRead."""
    apart = [*_TWO_WAVES, _TO_HALVES, *_DS_LOAD, _PAST_HALVES, *_HALVES]
    check(not _loads(apart), f"{_loads(apart)}: the other wave's load from LDS")
    check(not _loads([*_TWO_WAVES, *_HALVES]), "the high half after the low one")
    together = _loads([*_TWO_WAVES, *_DS_LOAD, *_HALVES])
    check(together and "v1" in together[0], f"{together}: the wave's own load from LDS")


# ds_load_u8_d16_hi and ds_load_u8_d16 v1, v2; global_load_d16_b16 v1, v[3:4];
# ds_store_b8 and ds_store_b8_d16_hi v2, v1
_LDS_TO_HIGH, _LDS_TO_LOW = [0xDA8C0000, 0x01000002], [0xDA880000, 0x01000002]
_TO_LOW = _HALVES[:2]
_OF_LOW, _OF_HIGH = [0xD8780000, 0x00000102], [0xDA800000, 0x00000102]
_USE, _VM_DONE = 0x7E060301, 0xBF8903F7  # v_mov_b32 v3, v1; s_waitcnt vmcnt(0)


@pytest.mark.parametrize(
    ("words", "late"),
    [
        ([*_TO_LOW, *_LDS_TO_HIGH], []),
        ([*_TO_LOW, *_LDS_TO_LOW], ["v1 before vmcnt"]),
        ([*_LDS_TO_HIGH, *_TO_LOW], []),
        ([*_TO_LOW, *_LDS_TO_HIGH, _VM_DONE, _USE], ["v1 before lgkmcnt"]),
        ([*_TO_LOW, *_OF_HIGH], []),
        ([*_TO_LOW, *_OF_LOW], ["v1 before vmcnt"]),
    ],
)
def test_a_memory_instruction_waits_for_its_own_half(words: list[int], late: list[str]) -> None:
    """src: LLVM SIInsertWaitcnts.cpp, determineVGPR16Dependency: a vector one waits for both."""
    head = [0x7E020280, *_TWO_WAVES]
    check(_loads([*head, *words]) == late, str(_loads([*head, *words])))


_INTO_ANOTHER = [_HALVES[0], 0x027C0003]  # global_load_d16_b16 v2, v[3:4]


@pytest.mark.parametrize(("others", "late"), [(62, ["v1 before vmcnt"]), (63, [])])
def test_a_full_counter_has_waited_for_the_oldest(others: int, late: list[str]) -> None:
    """src: LLVM SIInsertWaitcnts.cpp: vmcnt counts to 63, and the next load waits until it can."""
    words = [0x7E020280, *_TWO_WAVES, *_TO_LOW, *_INTO_ANOTHER * others, _USE]
    check(_loads(words) == late, str(_loads(words)))
