"""What firmware is given and reads: tables, images, sessions, HDP flushes of engines."""

from __future__ import annotations

import struct

import pytest

from boards.amd.pci import payload
from boards.amd.pci import psp_names as names
from tests.boards.bare_function import COMMAND, MESSAGE, TMR, VRAM_BYTES, Bare, started
from tests.support import check

MES, MES_KIQ, TA, UNKNOWN = 33, 81, 0x1, 0x77
"""src: psp_gfx_if.h GFX_FW_TYPE_CP_MES, GFX_FW_TYPE_CP_MES_KIQ, GFX_CMD_ID_LOAD_TA"""
OVERDRIVE, OVERDRIVE_BYTES = 8, 140
"""src: smu13_driver_if_v13_0_0.h TABLE_OVERDRIVE, sizeof(OverDriveTableExternal_t) of gcc"""
FLUSH_REQ, FLUSH_DONE = "BIF_BX_PF0_GPU_HDP_FLUSH_REQ", "BIF_BX_PF0_GPU_HDP_FLUSH_DONE"


def test_an_engines_flush_is_no_flush_of_the_cpus() -> None:
    bare = Bare("gfx1100")
    board = bare.gpu.board
    request, done = (board.block("NBIF").address_dw(name) for name in (FLUSH_REQ, FLUSH_DONE))
    with board.by_engine("graphics"):
        board.registers.write(request, 5)
        check(board.registers.read(done) == 5, "not done")
    board.launched("q", "queue 1")
    check(bare.found() == ["doorbell without HDP flush"], "the engine's stood for the CPU's")
    board.flush_hdp()
    with board.by_engine("graphics"):
        board.registers.read(done)
    board.need_flushed("an MQD")
    check(bare.found() == ["HDP flush under way"], "the engine's read ended the CPU's flush")


def test_the_bootloader_and_the_ring_need_a_flush_out_of_vram_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The GART's entries are in VRAM, behind the BAR."""
    bare = started("gfx1100")
    psp = bare.gpu.psp
    monkeypatch.setattr(type(psp.memory), "in_vram", lambda self, address, nbytes: False)
    bare.gpu.board.flush_hdp()
    psp.ring._advance(psp.ring._rptr_dw)
    check(bare.found() == ["HDP flush under way"], "the ring")
    bare.gpu.board.flush_hdp()
    psp.boot._image("SOS")
    check(bare.found()[0] == "HDP flush under way", "the bootloader")


@pytest.mark.parametrize(("name", "status"), [("gfx1100", names.SECURITY), ("gfx1201", 0)])
def test_only_gfx12_has_one_file_for_both_pipes(name: str, status: int) -> None:
    """src: amdgpu_mes.c amdgpu_mes_init_microcode(), enable_uni_mes"""
    bare = started(name)
    check(bare.load(MES, payload.make("CP_MES", 4096, "a")) == 0, f"{bare.gpu.violations}")
    got = bare.load(MES_KIQ, payload.make("CP_MES", 4096, "a"))
    check(got == status, f"{got:#x}: {bare.gpu.violations}")
    bare.found()
    own = bare.load(MES_KIQ, payload.make("CP_MES_KIQ", 4096, "b"))
    check((own == 0) == (name == "gfx1100"), f"{own:#x}")


def test_an_unknown_command_answers_with_no_session() -> None:
    bare = started("gfx1100")
    image = payload.make("RAS", 4096, "a")
    bare.put(MESSAGE, image)
    at = bare.mc + MESSAGE
    check(bare.submit(TA, at & 0xFFFF_FFFF, at >> 32, len(image))[0] == 0, "LOAD_TA")
    check(struct.unpack("<I", bare.get(COMMAND + 868, 4)) != (0,), "no session")
    bare.put(COMMAND + 868, bytes(4))
    check(bare.submit(UNKNOWN)[0] == names.UNKNOWN, "the command is known")
    check(struct.unpack("<I", bare.get(COMMAND + 868, 4)) == (0,), "the application's session")


@pytest.mark.parametrize(
    ("off", "taken"),
    [
        (VRAM_BYTES - OVERDRIVE_BYTES, True),
        (VRAM_BYTES - OVERDRIVE_BYTES + 4, False),
        (TMR - 4, False),
        (TMR - OVERDRIVE_BYTES, True),
    ],
)
def test_the_controller_reads_all_of_a_drivers_table(off: int, taken: bool) -> None:
    bare = started("gfx1100")
    at = bare.mc + off
    smu = bare.gpu.smu
    smu._set_dram(0, at & 0xFFFF_FFFF)
    smu._set_dram(1, at >> 32)
    status, _ = smu._receive(OVERDRIVE)
    check(status == (0x1 if taken else 0xFF), f"{status:#x}")
    check(bare.found() == ([] if taken else ["SMU table outside VRAM"]), "violations")
