"""The security processor: stages in order, images that are checked, the ring, trusted memory."""

from __future__ import annotations

import struct

import pytest

from tests.boards.bare_function import (
    COMMAND,
    FENCE,
    MESSAGE,
    MIB,
    NAMES,
    RING,
    STAGES,
    TMR,
    Bare,
    started,
)
from tests.support import check

READY = 0x8000_0000
COMMANDS = dict(STAGES)
FAMILIES = ("gfx1100", "gfx1201", "gfx942")
# src: psp_gfx_if.h enum psp_gfx_fw_type
KINDS = {
    "SDMA_UCODE_TH0": 71, "SDMA_UCODE_TH1": 72, "RS64_PFP": 87, "RS64_ME": 88, "RS64_MEC": 89,
    "RS64_PFP_P0_STACK": 90, "RS64_ME_P0_STACK": 92, "RS64_MEC_P0_STACK": 94, "IMU_I": 68,
    "IMU_D": 69, "RLC_RESTORE_LIST_GPM_MEM": 20, "RLC_RESTORE_LIST_SRM_MEM": 21,
    "RLC_RESTORE_LIST_SRM_CNTL": 22, "RLC_IRAM": 26, "RLC_DRAM_BOOT": 48, "RLC_P": 25, "RLC_V": 7,
    "SDMA0": 9, "SDMA1": 10, "SDMA2": 52, "SDMA3": 53, "CP_MEC": 4, "CP_MEC_ME1": 5, "RLC_G": 8,
}  # fmt: skip


def test_the_boot_rom_is_ready_before_anything() -> None:
    """src: amdgpu_discovery.c waits for bit 31 of C2PMSG_33, psp_v13_0.c for that of C2PMSG_35."""
    bare = Bare("gfx1100")
    check(bare.read("MP0", bare.psp(33)) & READY, "C2PMSG_33")
    check(bare.read("MP0", bare.psp(35)) == READY, "C2PMSG_35")
    check(bare.read("MP0", bare.psp(81)) == 0, "SOS lives")


@pytest.mark.parametrize("name", NAMES)
def test_every_chip_starts_its_secure_os(name: str) -> None:
    bare = Bare(name)
    bare.start_sos()
    check(bare.create_ring() == READY, "no ring")
    bare.set_up_tmr()
    check(bare.found() == [], f"{bare.gpu.violations}")


def test_stages_have_an_order() -> None:
    bare = Bare("gfx1101")
    pieces = bare.pieces("PSP")
    check(bare.stage(COMMANDS["SOS"], pieces["SOS"]) & 0xFF, "SOS first")
    check(bare.stage(COMMANDS["KDB"], pieces["KDB"]) == READY, "KDB")
    check(bare.stage(COMMANDS["SYS_DRV"], pieces["SYS_DRV"]) == READY, "SYS_DRV")
    check(bare.stage(COMMANDS["KDB"], pieces["KDB"]) & 0xFF, "backwards")
    check(bare.stage(COMMANDS["SOS"], pieces["SOS"]) & 0xFF, "SOC_DRV is missing")
    check(bare.stage(0x123, pieces["SOS"]) & 0xFF, "no such command")
    check(bare.read("MP0", bare.psp(81)) == 0, "SOS lives")
    check(bare.found() == ["PSP bootloader refused"] * 3, "violations by stage, each once")


@pytest.mark.parametrize("bit", [0, 8 * 5, 8 * 9, 8 * 20, 8 * 70])
def test_a_changed_bit_is_refused(bit: int) -> None:
    bare = Bare("gfx1100")
    image = bytearray(bare.pieces("PSP")["KDB"])
    image[bit // 8] ^= 1 << bit % 8
    check(bare.stage(COMMANDS["KDB"], bytes(image)) & 0xFF, "taken all the same")
    image[bit // 8] ^= 1 << bit % 8
    check(bare.stage(COMMANDS["KDB"], bytes(image)) == READY, "it does not recover")


def test_an_image_for_another_stage_or_outside_vram() -> None:
    bare = Bare("gfx1201")
    pieces = bare.pieces("PSP")
    check(bare.stage(COMMANDS["KDB"], pieces["SPL"]) & 0xFF, "another piece")
    check(bare.stage(COMMANDS["KDB"], pieces["KDB"]) == READY, "KDB")
    check(bare.stage(COMMANDS["SPL"], pieces["KDB"]) & 0xFF, "src: psp_v14_0.c sends the SPL")
    bare.write("MP0", bare.psp(36), 0)
    bare.write("MP0", bare.psp(35), COMMANDS["SPL"])
    check(bare.read("MP0", bare.psp(35)) & 0xFF, "address 0")
    old = Bare("gfx1100")
    kdb = old.pieces("PSP")["KDB"]
    old.stage(COMMANDS["KDB"], kdb)
    check(old.stage(COMMANDS["SPL"], kdb) == READY, "src: psp_v13_0.c sends the KDB")


def test_images_that_were_not_flushed_are_found() -> None:
    bare = Bare("gfx1100")
    bare.put(MESSAGE, bare.pieces("PSP")["KDB"])
    bare.write("MP0", bare.psp(36), (bare.mc + MESSAGE) >> 20)
    bare.write("MP0", bare.psp(35), COMMANDS["KDB"])
    check(bare.found() == ["doorbell without HDP flush"], "nobody noticed")


@pytest.mark.parametrize("name", FAMILIES)
def test_a_ring_is_made_once_and_destroyed(name: str) -> None:
    bare = Bare(name)
    check(bare.create_ring() & READY == 0, "before SOS")
    bare.start_sos()
    bare.gpu.hardware.forget_violations()
    check(bare.create_ring() == READY, "create")
    check(bare.create_ring() & 0xFFFF, "twice")
    bare.write("MP0", bare.psp(64), 0x30000)
    check(bare.read("MP0", bare.psp(71)) == 0, "it still has a size")
    check(bare.create_ring() == READY, "create again")
    check(bare.found() == ["PSP ring that cannot be"], "violations")
    bare.write("MP0", bare.psp(67), 0x10008 // 4)
    check(bare.found() == ["PSP write pointer that cannot be"], "half a frame")


def load_all(bare: Bare, without: str = "") -> list[int]:
    """Every piece of the graphics blocks: statuses that are not 0."""
    statuses: list[int] = []
    for block in ("SDMA", "PFP", "ME", "MEC", "IMU", "RLC"):
        if block in ("PFP", "ME") and not bare.name.startswith("gfx12"):
            continue
        if block == "IMU" and bare.name == "gfx942":
            continue
        pieces = bare.pieces(block)
        kinds = sorted(pieces, key=lambda kind: kind == "RLC_G")
        sent = [kind for kind in kinds if kind in KINDS and kind != without]
        statuses += [bare.load(KINDS[kind], pieces[kind]) for kind in sent]
    return [status for status in statuses if status]


@pytest.mark.parametrize("name", FAMILIES)
def test_firmware_arrives_by_kind(name: str) -> None:
    bare = started(name)
    check(load_all(bare) == [], f"{bare.gpu.violations}")
    expected = "CP_MEC" if name == "gfx942" else "RS64_MEC"
    check({expected, "RLC_G"} <= bare.gpu.board.loaded, f"{bare.gpu.board.loaded}")
    status, _ = bare.submit(0x21)
    check((status == 0) is (name != "gfx942"), "src: autoload_supported")
    check(("RLC_AUTOLOAD" in bare.gpu.board.loaded) is (name != "gfx942"), "autoload")
    if name != "gfx942":
        check(bare.load(KINDS["RLC_G"], bare.pieces("RLC")["RLC_G"]) != 0, "after the autoload")
    else:
        check(bare.load(67, bare.pieces("PSP")["RL"]) == 0, "REG_LIST")
        check((bare.submit(0x27, 1)[0], bare.gpu.board.partitions) == (0, 1), "one partition")
        check(bare.submit(0x27, 9)[0] != 0, "nine partitions of eight dies")


def test_the_rlcs_code_comes_last() -> None:
    """src: amdgpu_ucode.h enum AMDGPU_UCODE_ID, psp_load_non_psp_fw()"""
    bare = started("gfx1100")
    check(bare.load(KINDS["RLC_G"], bare.pieces("RLC")["RLC_G"]) == 0, "RLC_G")
    check(bare.load(KINDS["RLC_G"], bare.pieces("RLC")["RLC_G"]) == 0, "once more")
    check(bare.found() == [], "nothing is wrong yet")
    check(bare.load(KINDS["IMU_I"], bare.pieces("IMU")["IMU_I"]) == 0, "it is taken all the same")
    check(bare.found() == ["firmware out of order"], f"{bare.gpu.violations}")


def test_the_graphics_block_takes_nothing_before_it_is_up() -> None:
    """src: gfx_v11_0_hw_init() writes once the autoload is complete."""
    bare = Bare("gfx1100")
    name = "GCVM_L2_CNTL"
    bare.write("GC", name, 1)
    check((bare.read("GC", name), bare.found()) == (0, ["write before its block is up"]), "taken")
    bare.write("GC", "SCRATCH_REG7", 1)
    check((bare.read("GC", "SCRATCH_REG7"), bare.found()) == (1, []), "scratch registers are up")
    bare.gpu.board.loaded.add("RLC_AUTOLOAD")
    bare.write("GC", name, 1)
    check((bare.read("GC", name), bare.found()) == (1, []), "it is up")


@pytest.mark.parametrize("missing", ["RS64_MEC", "IMU_D", "RLC_IRAM", "SDMA_UCODE_TH1"])
def test_the_rlc_starts_nothing_that_has_not_arrived(missing: str) -> None:
    bare = started("gfx1100")
    check(load_all(bare, without=missing) == [], "loads")
    check(bare.submit(0x21)[0] != 0, "it started")
    check("RLC_AUTOLOAD" not in bare.gpu.board.loaded, "it counts as started")
    found = [str(violation) for violation in bare.gpu.violations]
    check(any(missing in line for line in found), f"{found}")


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201"])
def test_the_rlc_starts_without_its_restore_lists(name: str) -> None:
    """A violation alone: Linux sends the lists of any RLC header (amdgpu_rlc.c), tinygrad those of
    v2.1 alone, which no chip here has, and is known to run on gfx1100 and gfx1201."""
    bare = started(name)
    check(load_all(bare, without="RLC_RESTORE_LIST_GPM_MEM") == [], "loads")
    check(bare.submit(0x21)[0] == 0 and "RLC_AUTOLOAD" in bare.gpu.board.loaded, "it refuses")
    check(bare.found() == ["autoload without a restore list"], f"{bare.gpu.violations}")
    check(bare.load(KINDS["RLC_G"], bare.pieces("RLC")["RLC_G"]) != 0, "after the autoload")


def test_trusted_memory_before_the_controller_where_linux_has_it_so() -> None:
    """src: amdgpu_psp.c psp_check_pmfw_centralized_cstate_management(): MP0 13.0.0 and 13.0.7 want
    the SMU's firmware before SETUP_TMR; on 13.0.10 psp_load_non_psp_fw() loads it first of all."""
    bare = Bare("gfx1101")
    bare.start_sos()
    bare.create_ring()
    toc = bare.pieces("PSP")["TOC"]
    bare.put(MESSAGE, toc)
    low, high = (bare.mc + MESSAGE) & 0xFFFF_FFFF, (bare.mc + MESSAGE) >> 32
    size = bare.submit(0x20, low, high, len(toc))[1]
    at = bare.mc + TMR
    check(bare.submit(0x5, at & 0xFFFF_FFFF, at >> 32, size, 2, TMR, 0)[0] == 0, "SETUP_TMR")
    check(bare.load(KINDS["IMU_I"], bare.pieces("IMU")["IMU_I"]) != 0, "IMU before the SMU")
    bare.gpu.hardware.forget_violations()
    check(bare.load(18, bare.pieces("SMU")["SMU"]) == 0, "SMU")
    check(load_all(bare) == [] and bare.submit(0x21)[0] == 0, f"{bare.gpu.violations}")
    check(bare.found() == [], "nothing is wrong")


def test_firmware_is_checked_before_it_counts() -> None:
    bare = started("gfx1100")
    mec = bytearray(bare.pieces("MEC")["RS64_MEC"])
    check(bare.load(KINDS["RS64_ME"], bytes(mec)) == 0xFFFF000F, "for another block")
    mec[-1] ^= 1
    check(bare.load(KINDS["RS64_MEC"], bytes(mec)) == 0xFFFF000F, "changed")
    mec[-1] ^= 1
    check(
        bare.load(KINDS["RS64_MEC"], bytes(mec), MESSAGE + 16) == 0xFFFF000F, "in a page's middle"
    )
    check(bare.load(KINDS["RS64_MEC"], bytes(mec[:-16])) == 0xFFFF000F, "cut")
    check(bare.load(999, bytes(mec)) == 0xFFFF000A, "no such kind")
    check("RS64_MEC" not in bare.gpu.board.loaded, "it counts")
    check(bare.load(KINDS["RS64_MEC"], bytes(mec)) == 0, "the right one")
    check("RS64_MEC" in bare.gpu.board.loaded, "it does not count")


def test_trusted_memory_comes_first_and_the_controller_before_it() -> None:
    """src: amdgpu_psp.c psp_hw_start(): TOC, the SMU's firmware, TMR, everything else."""
    bare = Bare("gfx1100")
    bare.start_sos()
    bare.create_ring()
    low, high = (bare.mc + TMR) & 0xFFFF_FFFF, (bare.mc + TMR) >> 32
    setup = (low, high, 0x1300000, 2, TMR, 0)
    check(bare.submit(0x5, *setup)[0] != 0, "TMR before all")
    check(bare.load(KINDS["IMU_I"], bare.pieces("IMU")["IMU_I"]) != 0, "IMU before all")
    toc = bare.pieces("PSP")["TOC"]
    bare.put(MESSAGE, toc)
    here = (bare.mc + MESSAGE) & 0xFFFF_FFFF
    size = bare.submit(0x20, here, (bare.mc + MESSAGE) >> 32, len(toc))[1]
    check(bare.submit(0x5, *setup)[0] != 0, "TMR before the SMU")
    check(bare.load(18, bare.pieces("SMU")["SMU"]) == 0, "SMU")
    check(bare.submit(0x5, low, high, size - MIB, 2, TMR, 0)[0] != 0, "too small")
    check(bare.submit(0x5, low + 0x1000, high, size, 2, TMR, 0)[0] != 0, "not aligned")
    check(bare.submit(0x5, low, high, size, 2, 0, 0)[0] != 0, "two different addresses")
    check(bare.submit(0x5, low, high, size, 2, TMR, 0)[0] == 0, "right")
    check(bare.submit(0x5, low, high, size, 2, TMR, 0)[0] != 0, "twice")


def test_the_controller_comes_behind_trusted_memory_on_gfx1101() -> None:
    """src: amdgpu_psp.c psp_check_pmfw_centralized_cstate_management(): 13.0.10 is not listed, so
    psp_hw_start() sets up the TMR and psp_load_non_psp_fw() sends the SMU's firmware."""
    bare = Bare("gfx1101")
    bare.start_sos()
    bare.create_ring()
    toc, smu = bare.pieces("PSP")["TOC"], bare.pieces("SMU")["SMU"]
    check(bare.load(18, smu) == 0xFFFF0007, "the SMU before the TMR")
    bare.put(MESSAGE, toc)
    here = bare.mc + MESSAGE
    size = bare.submit(0x20, here & 0xFFFF_FFFF, here >> 32, len(toc))[1]
    low, high = (bare.mc + TMR) & 0xFFFF_FFFF, (bare.mc + TMR) >> 32
    check(bare.load(18, smu) == 0xFFFF0007, "the SMU before the TMR, after the TOC")
    check(bare.submit(0x5, low, high, size, 2, TMR, 0)[0] == 0, "the TMR first")
    check(bare.load(18, smu) == 0, "then the SMU")


def test_trusted_memory_is_nobodys() -> None:
    bare = started("gfx1100")
    check(bare.gpu.read(0, TMR + 64, 4) == 0xFFFF_FFFF, "the host reads it")
    bare.gpu.write(0, TMR + 64, 4, 1)
    check(bare.found() == ["VRAM that the host may not reach"] * 2, "nobody noticed")
    check(bare.gpu.board.vram.is_guarded(TMR, 4) and not bare.gpu.board.vram.is_guarded(0, TMR))
    bare.put(TMR + 4096, b"x")  # as through a mapping, which is not watched
    bare.submit(0x22)
    check("trusted memory was touched" in bare.found(), "the mapping was not noticed")


def test_commands_and_frames_that_cannot_be() -> None:
    bare = started("gfx1100")
    check(bare.submit(0x77)[0] == 0x100, "src: PSP_ERR_UNKNOWN_COMMAND")
    check(bare.found() == ["PSP command that is not known"], "violation")
    bare.put(0x10000 + 4 * bare.read("MP0", bare.psp(67)), bytes(64))
    bare.flush()
    bare.write("MP0", bare.psp(67), bare.read("MP0", bare.psp(67)) + 16)
    check(bare.found() == ["PSP frame that cannot be"], "a frame of zeros")
    at = (bare.mc + COMMAND) & 0xFFFF_FFFF, (bare.mc + COMMAND) >> 32
    fence = (bare.mc + FENCE) & 0xFFFF_FFFF, (bare.mc + FENCE) >> 32
    frame = struct.pack("<6I40x", *at, 1024, *fence, 99)
    bare.put(RING + 4 * bare.read("MP0", bare.psp(67)), frame)
    bare.flush()
    bare.write("MP0", bare.psp(67), bare.read("MP0", bare.psp(67)) + 16)
    check("PSP frame with a size" in bare.found(), "src: psp_ring_cmd_submit() leaves it 0")


def test_late_answers_come_with_the_clock() -> None:
    bare = Bare("gfx1100", psp_s=0.5)
    bare.put(MESSAGE, bare.pieces("PSP")["KDB"])
    bare.flush()
    bare.write("MP0", bare.psp(36), (bare.mc + MESSAGE) >> 20)
    bare.write("MP0", bare.psp(35), COMMANDS["KDB"])
    check(bare.read("MP0", bare.psp(35)) == 0, "at once")
    bare.write("MP0", bare.psp(35), COMMANDS["KDB"])
    check(bare.found() == ["PSP bootloader command while it is busy"], "a second command")
    bare.gpu.clock.skip(0.6)
    check(bare.read("MP0", bare.psp(35)) == READY, "never")
