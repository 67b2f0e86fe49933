"""Violations that `make vm` accepts of the real amdgpu: each with a reason, and no others."""

from __future__ import annotations

import pytest

from boards.amd.chip import chip
from boards.amd.pci.unmodelled import named
from tests.support import check
from tests.vm.accepted import ACCEPTED, Broken, broken, unexplained
from tests.vm.unmodelled import UNMODELLED, with_functions
from tests.vm.unmodelled_gfx12 import GFX12
from tests.vm.unmodelled_gfx942 import GFX942

ON_GFX1201 = (0x1A23E, 0x2632, 0x2685, 0xA880, *range(0xC83C, 0xC841))
"""measured: dwords that amdgpu of Linux 6.12.107 accesses on gfx1201 and not on gfx1100"""
AMDGPU_BOARDS = ("gfx1100", "gfx1101", "gfx1102")

SPM = "write before its block is up: GC[0].RLC_SPM_MC_CNTL (0xf)"
NOWHERE = "unknown register: read of {} (0x0)"
SOFTWARE_INT = "MP1[0].MP1_SMN_IH_SW_INT_CTRL"
FLUSH = "HDP flush under way: {}: no register was read since the flush"


def left(*violations: Broken, binds: int = 1, board: str = "gfx1100") -> list[str]:
    return unexplained(violations, binds, board)[0]


def test_each_has_a_reason_and_a_source() -> None:
    for one in ACCEPTED:
        sourced = ".c " in one.source or one.source.startswith("measured: ")
        check(len(one.reason) > 20 and sourced, one.pattern)


@pytest.mark.parametrize(
    "text",
    [SPM.replace("RLC_SPM_MC_CNTL", "RLC_CNTL"), SPM.replace("0xf", "0x5"),
     SPM.replace("0xf", "0xf0")],
)  # fmt: skip
def test_another_register_or_value_is_not_accepted(text: str) -> None:
    check(left(Broken(0, 1, SPM)) == [], "accepted once")
    check(len(left(Broken(0, 1, text))) == 1, text)


def test_once_for_each_bind() -> None:
    check(left(Broken(0, 2, SPM), binds=2) == [], "two binds")
    check(len(left(Broken(0, 2, SPM))) == 1, "twice in one")
    check(len(left(Broken(1, 1, SPM))) == 1, "amdgpu has MSI on, so its engines are up")
    check(left(Broken(0, 1, NOWHERE.format("dword 0x7"))) == [], "an early one")
    check(len(left(Broken(0, 3, NOWHERE.format("dword 0x7")))) == 1, "too often")


def test_registers_that_are_not_modelled_are_listed() -> None:
    check(left(Broken(2, 7, NOWHERE.format(SOFTWARE_INT))) == [], "a listed one")
    for other in (f"{SOFTWARE_INT}_2", "dword 0x162c3", SOFTWARE_INT.replace("[0]", "[1]")):
        check(len(left(Broken(2, 1, NOWHERE.format(other)))) == 1, other)
    only_read = "unknown register: write of NBIF[0].CPM_CONTROL (0x0)"
    check(len(left(Broken(1, 1, only_read))) == 1, "amdgpu writes it in no clean run")


def test_those_of_one_generation_are_accepted_there_alone() -> None:
    golden = Broken(1, 1, NOWHERE.format("GC[0].DB_MEM_CONFIG"))
    check(left(golden, board="gfx1201") == [], "a golden setting of gfx12")
    for board in ("gfx1100", "gfx942"):
        check(len(left(golden, board=board)) == 1, board)


@pytest.mark.parametrize("engine", ["SDMA0", "SDMA1"])
def test_the_semaphores_time_limit_is_only_switched_off(engine: str) -> None:
    """src: sdma_v6_0.c WREG32_SOC15_IP(..., regSDMA0_SEM_WAIT_FAIL_TIMER_CNTL), 0)"""
    text = f"unknown register: write of GC[0].{engine}_SEM_WAIT_FAIL_TIMER_CNTL"
    check(left(Broken(1, 1, f"{text} (0x0)")) == [], "0")
    check(len(left(Broken(1, 1, f"{text} (0x1)"))) == 1, "a time limit")


@pytest.mark.parametrize("board", AMDGPU_BOARDS)
def test_functions_of_linux_are_those_that_name_the_register(board: str) -> None:
    by_name = dict(named(chip(board)).values())
    for one in UNMODELLED:
        function = one.source.split()[1].removesuffix("()")
        check(function in by_name[one.register].functions, f"{board}: {one}")
    line = f"not modelled: {SOFTWARE_INT}: 1 reads (answered 0), 0 writes, last 0x0"
    wanted = f"{line} [smu_v13_0_set_irq_state(), smu_v13_0_irq_process()]"
    check(with_functions(board, [line, "waited for: x"]) == [wanted, "waited for: x"], board)


def test_those_of_gfx12_have_linuxs_names_and_functions() -> None:
    found = named(chip("gfx1201"))
    check({found[at][0] for at in ON_GFX1201} == {one.register for one in GFX12}, "another one")
    functions = {name: one.functions for name, one in found.values()}
    for one in GFX12:
        check(any(name in one.source for name in functions[one.register]), f"{one}")


@pytest.mark.parametrize("text", [FLUSH.format("queue 0 of SDMA0"), NOWHERE.format(SOFTWARE_INT)])
def test_nothing_is_accepted_while_no_kernel_driver_has_the_gpu(text: str) -> None:
    check(len(left(Broken(0, 1, text))) == 1, text)


def test_readers_of_a_flush_that_is_under_way_are_named() -> None:
    known = ["GCHUB, invalidation by engine 17", "queue 0 of SDMA0", "queue 1.0.2 of GC[0]",
             "graphics queue at doorbell 278", "KIQ queue at doorbell 64 of GC[1]",
             "HIQ queue at doorbell 3072 of GC[0]", "queue 1.0.2 of GC[7], its MQD"]  # fmt: skip
    check(left(*(Broken(1, 9, FLUSH.format(who)) for who in known)) == [], "known readers")
    for who in ("PSP bootloader", "PSP ring", "queue (3, 1, 0), its MQD"):
        check(len(left(Broken(1, 1, FLUSH.format(who)))) == 1, who)


def test_a_boards_log_is_read_by_session() -> None:
    lines = [f"broken in session 2: 3 x {SPM}", "sessions with MSI: 2", f"violation: {SPM}",
             "violation: another: one"]  # fmt: skip
    found, sessions = broken(lines)
    check(found == [Broken(2, 3, SPM), Broken(0, 1, "another: one")], f"{found}")
    check(sessions == 2, f"{sessions}")


def test_those_of_gfx942_have_linuxs_names_where_it_has_any() -> None:
    """src: mmhub_1_8_0_offset.h: DAGB4 is at 0x260; gc_9_4_3_offset.h: CPC_INT_CNTL is 0x10b4"""
    registers = {one.register for one in GFX942}
    names = {name for name, _ in named(chip("gfx942")).values()}
    unnamed = {name for name in registers if name.startswith("dword ")}
    check(registers - names == unnamed, f"{registers - names - unnamed}")
    wanted = {"dword 0x24260", "dword 0x27261", "dword 0x30b4", "dword 0x730b4"}
    check(wanted <= unnamed, f"{wanted - unnamed}")


def test_a_range_that_is_not_everything_is_amdgpus_boot() -> None:
    text = "invalidation: {}: engine 17 has an address range that is not everything"
    gc, mm = (Broken(0, n, text.format(hub)) for hub, n in (("GCHUB", 8), ("MMHUB", 4)))
    check(left(gc, mm, board="gfx942") == [], "once for each instance")
    check(len(left(gc, gc, board="gfx942")) == 1, "too often")
    check(len(left(Broken(1, 1, gc.text), board="gfx942")) == 1, "too late")
    check(len(left(gc)) == 1, "another chip")


def test_an_early_register_is_accepted_as_often_as_amdgpu_reads_it() -> None:
    """src: nbio_v7_9.c nbio_v7_9_init_registers(), on each of four base dies"""
    baco = NOWHERE.format("NBIF[0].BIF_BX0_BACO_CNTL")
    for one in (Broken(0, 4, baco), Broken(1, 9, baco)):
        check(left(one, board="gfx942") == [], "accepted")
    check(len(left(Broken(0, 5, baco), board="gfx942")) == 1, "too often")
