"""A kernel driver that leaves Navi 32 without a display ends the power controller's firmware."""

from __future__ import annotations

import pytest

from tests.boards.bare_function import started
from tests.support import check

UNLOAD, ARGUMENT = 0x2E, 0x55
"""src: smu_v13_0_0_ppsmc.h PPSMC_MSG_PrepareMp1ForUnload; smu_v13_0_0_set_mp1_state()"""
FLAGS_DW = 0x3B10024 // 4
"""src: smu_v13_0.h MP1_Public, smnMP1_FIRMWARE_FLAGS"""
OK, FAILED, SPM = 1, 0xFF, "RLC_SPM_MC_CNTL"


def test_everything_but_sos_ends() -> None:
    bare = started("gfx1101")
    board = bare.gpu.board
    board.loaded.add("RLC_AUTOLOAD")
    bare.write("GC", SPM, 5)
    bare.write("MMHUB", "MMVM_CONTEXT0_CNTL", 1)
    check(board.registers.read(FLAGS_DW) == 1, "the firmware runs")
    check(bare.smu(UNLOAD, ARGUMENT)[0] == OK, "amdgpu waits for the answer")
    check(board.registers.read(FLAGS_DW) == 0, "the firmware has ended")
    check(bare.smu(1, 41)[0] == 0, "no answer without firmware")
    check(bare.read("MP0", bare.psp(81)) != 0, "sOS lives")
    check(not board.loaded and bare.read("GC", SPM) == 0, "the core is off")
    check(bare.read("MMHUB", "MMVM_CONTEXT0_CNTL") == 1, "the memory hub is not of the core")
    check(bare.found() == [], "a violation")
    bare.write("GC", SPM, 1)
    check(bare.found() == ["write before its block is up"], "until it is loaded again")


def test_another_argument_is_refused() -> None:
    bare = started("gfx1101")
    check(bare.smu(UNLOAD, 1)[0] == FAILED and bare.gpu.board.loaded, "it goes on")
    check(bare.found() == ["SMU unload that is not modelled"], "violation")


@pytest.mark.parametrize("name", ["gfx1100", "gfx1102"])
def test_other_chips_only_listen(name: str) -> None:
    """src: amdgpu_smu.c smu_reset_mp1_state(): 13.0.10 alone"""
    bare = started(name)
    check(bare.smu(UNLOAD, ARGUMENT)[0] == OK and bare.gpu.board.loaded, "it goes on")
    check(bare.gpu.smu.heard["PrepareMp1ForUnload"] == ARGUMENT, "remembered")
