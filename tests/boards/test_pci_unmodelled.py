"""Registers without a model: their names in reports, and the plain ones that have one now."""

from __future__ import annotations

from pathlib import Path

import pytest

from boards.amd.chip import chip
from boards.amd.pci import unmodelled
from boards.amd.pci.unmodelled import named
from tests.boards.bare_function import NAMES, Bare
from tests.support import check

MEASURED = {
    0x1282: "GC[0].SDMA0_SEM_WAIT_FAIL_TIMER_CNTL", 0x1882: "GC[0].SDMA1_SEM_WAIT_FAIL_TIMER_CNTL",
    0x162C2: "MP1[0].MP1_SMN_IH_SW_INT", 0x162C3: "MP1[0].MP1_SMN_IH_SW_INT_CTRL",
    0x1660A: "THM[0].THM_THERMAL_INT_ENA", 0x1660B: "THM[0].THM_THERMAL_INT_CTRL",
    0x30B4: "GC[0].CPC_INT_CNTL", 0x45071: "LSDMA[0].LSDMA_MEM_POWER_CTRL",
    0x68E001C: "NBIF[0].PCIE_CNTL2", 0x68E0118: "NBIF[0].CPM_CONTROL",
    0xC75: "ATHUB[0].ATHUB_MISC_CNTL", 0xE068: "GC[0].GFX_IMU_SCRATCH_0",
}  # fmt: skip
"""measured: dwords that amdgpu of Linux 6.12.107 accessed on board gfx1100; names by the function
of Linux that stood in its stack or that writes the value which was seen."""
IOV = "RCC_DEV0_EPF0_RCC_IOV_FUNC_IDENTIFIER"


@pytest.mark.parametrize("name", ["gfx1100", "gfx1101", "gfx1102"])
def test_what_amdgpu_accesses_has_its_name(name: str) -> None:
    found = {address: where for address, (where, _) in named(chip(name)).items()}
    for address, register in MEASURED.items():
        check(found.get(address) == register, f"{address:#x}: {found.get(address)}")


@pytest.mark.parametrize(("name", "offset_dw"), [("gfx1102", 0x75), ("gfx1201", 0x80)])
def test_each_generation_has_its_own_header(name: str, offset_dw: int) -> None:
    """src: athub_3_0_0_offset.h, athub_4_1_0_offset.h regATHUB_MISC_CNTL; base: 0xc00"""
    where = {where: address for address, (where, _) in named(chip(name)).items()}
    check(where["ATHUB[0].ATHUB_MISC_CNTL"] == 0xC00 + offset_dw, f"{where}")


def test_functions_whose_names_begin_a_line() -> None:
    """src: mmhub_v4_1_0.c, mmhub_v3_0.c: the type stands on the line before the name"""
    by_name = dict(named(chip("gfx1201")).values())
    functions = by_name["MMHUB[0].DAGB1_CNTL_MISC2"].functions
    check(functions == ("mmhub_v4_1_0_update_medium_grain_clock_gating",), f"{functions}")


def test_every_file_of_names_is_of_some_block() -> None:
    there = {path.stem for path in (Path(unmodelled.__file__).parent / "register_names").iterdir()}
    used = {name for files in unmodelled._FILES.values() for name in files.values()}
    check(there == used, f"{there ^ used}")


def test_a_violation_names_the_register() -> None:
    bare = Bare("gfx1102")
    bare.gpu.write(5, 4 * 0x1660B, 4, 5)
    bare.gpu.board.registers.read(0x68E0118)
    bare.gpu.board.registers.read(0x7)
    found = [str(violation) for violation in bare.gpu.violations]
    wanted = ["write of THM[0].THM_THERMAL_INT_CTRL (0x5)", "read of NBIF[0].CPM_CONTROL (0x0)",
              "read of dword 0x7 (0x0)"]  # fmt: skip
    check(found == [f"unknown register: {text}" for text in wanted], f"{found}")


@pytest.mark.parametrize("name", NAMES)
def test_no_virtual_function(name: str) -> None:
    """src: amdgpu_virt.h: mmRCC_IOV_FUNC_IDENTIFIER is dword 0xDE5 on every chip"""
    bare = Bare(name)
    check(bare.address("NBIF", IOV) == 4 * 0xDE5, f"{bare.address('NBIF', IOV):#x}")
    check(bare.read("NBIF", IOV) == 0 and bare.found() == [], "no virtual function")
    bare.write("NBIF", IOV, 1 << 31)
    check(bare.read("NBIF", IOV) == 0, "SR-IOV is not switched on here")
    check(bare.found() == ["write to a read-only register"], "who wrote it?")


def test_no_channel_of_l2_is_fused_off() -> None:
    bare = Bare("gfx1100")
    check(bare.gpu.board.block("GC").address_dw("CGTS_TCC_DISABLE") == 0xF006, "measured")
    check(bare.read("GC", "CGTS_TCC_DISABLE") == 0 and bare.found() == [], "all are there")
    bare.write("GC", "CGTS_TCC_DISABLE", 1 << 16)
    check(bare.found() == ["write to a read-only register"], "fuses are not written")


def test_the_reference_clock_counts() -> None:
    bare = Bare("gfx1101")
    clock = bare.gpu.clock
    check(bare.gpu.board.block("SMUIO").address_dw("GOLDEN_TSC_COUNT_UPPER") == 0x16A2D, "measured")
    clock.skip(2 * (1 << 32) / 1e8)  # so that the upper half is not 0. src: 100 MHz
    before = clock.ticks()
    high = bare.read("SMUIO", "GOLDEN_TSC_COUNT_UPPER")
    low = bare.read("SMUIO", "GOLDEN_TSC_COUNT_LOWER")
    if bare.read("SMUIO", "GOLDEN_TSC_COUNT_UPPER") != high:
        high, low = high + 1, bare.read("SMUIO", "GOLDEN_TSC_COUNT_LOWER")
    check(before <= high << 32 | low <= clock.ticks(), f"{high:#x} {low:#x}")
    check(bare.found() == [], "it was unknown")
    bare.write("SMUIO", "GOLDEN_TSC_COUNT_LOWER", 0)
    check(bare.found() == ["write to a read-only register"], "nobody sets it back")
