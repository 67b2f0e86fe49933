"""Compute queues and copy engines by their registers: banking, rules, the ends of queues."""

from __future__ import annotations

import pytest

from tests.boards.pci_bringup import COMPUTE_DOORBELL, Bringup, release, write_data
from tests.support import check


def test_banks() -> None:
    board = Bringup("gfx1100")
    for queue in range(4):
        board.select(me=1, pipe=queue & 1, queue=queue)
        board.write("GC", "CP_HQD_VMID", queue + 1)
    for vmid in (3, 9):
        board.select(vmid=vmid)
        board.write("GC", "SH_MEM_BASES", vmid << 16)
    for queue in range(4):
        board.select(me=1, pipe=queue & 1, queue=queue)
        check(board.read("GC", "CP_HQD_VMID") == queue + 1, f"queue {queue}")
    board.select(me=1, pipe=1, queue=0)
    check(board.read("GC", "CP_HQD_VMID") == 0, "a queue nobody wrote")
    board.select(vmid=9)
    check(board.read("GC", "SH_MEM_BASES") == 9 << 16, "VMID 9")
    board.select(vmid=4)
    check(board.read("GC", "SH_MEM_BASES") == 0, "VMID 4")


def test_shader_arrays_by_index() -> None:
    board = Bringup("gfx1100")
    name = "GC_USER_SHADER_ARRAY_CONFIG"
    board.write("GC", name, 0x1_0000)
    board.write("GC", "GRBM_GFX_INDEX", 2 << 16 | 1 << 8)
    check(board.read("GC", name) == 0x1_0000, "written to all")
    board.write("GC", name, 0x3_0000)
    board.write("GC", "GRBM_GFX_INDEX", 2 << 16)
    check(board.read("GC", name) == 0x1_0000, "another array")


def test_a_queue_that_is_dequeued_hears_no_doorbell() -> None:
    board = Bringup("gfx1100").boot()
    queue, (signal, offset) = board.compute(), board.buffer()
    board.flush()
    board.submit(queue, release(signal, 1))
    check(board.active(), "active")
    board.dequeue(1)
    check(not board.active(), "idle queues leave at once")
    board.select(me=1)
    check(board.read("GC", "CP_HQD_PQ_RPTR") == 8, "where it was")
    check(board.read("GC", "CP_HQD_DEQUEUE_REQUEST") == 0, "done")
    board.select()
    board.submit(queue, release(signal, 2))
    check(board.word(offset) == 1, "it ran")
    check("without a queue" in board.violations()[0], str(board.violations()))


@pytest.mark.parametrize("name", ["gfx1100", "gfx942"])
def test_holes_between_the_registers_of_a_queue_are_written(name: str) -> None:
    """src: amdgpu_amdkfd_gfx_v11.c hqd_load_v11(), amdgpu_amdkfd_gfx_v9.c kgd_gfx_v9_hqd_load(): an
    MQD is copied dword by dword from CP_MQD_BASE_ADDR to CP_HQD_PQ_WPTR_HI"""
    board = Bringup(name)
    for block in board.gpu.board.registers.every("GC"):
        hole = block.address_dw("CP_HQD_PQ_DOORBELL_CONTROL") + 1
        check(hole == block.address_dw("CP_HQD_PQ_CONTROL") - 1, "no hole")
        board.gpu.write(5, 4 * hole, 4, 0x1234)
        check(board.violations() == [], str(board.violations()))
        check(board.gpu.read(5, 4 * hole, 4) == 0, "nothing keeps it")
        board.hardware.forget_violations()


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201"])
def test_the_engine_is_reset_while_it_runs(name: str) -> None:
    """No violation for the pulse itself: tinygrad does it on a warm boot, and is known to run."""
    board = Bringup(name).boot()
    board.fields("GC", "CP_MEC_RS64_CNTL", mec_pipe0_reset=1)
    board.fields("GC", "CP_MEC_RS64_CNTL", mec_pipe0_reset=0)
    check(board.violations() == [], str(board.violations()))
    queue, (va, offset) = board.compute(), board.buffer()
    board.flush()
    board.submit(queue, write_data(va, 1))
    check(board.word(offset) == 1 and board.violations() == [], str(board.violations()))
    board.fields("GC", "CP_MEC_RS64_CNTL", mec_pipe0_reset=1)
    check(board.violations() == [], "the pulse may end yet")
    board.submit(queue, write_data(va, 2))
    check(board.word(offset) == 1, "it ran in reset")
    check("pipe 0 is in reset" in board.violations()[0], str(board.violations()))


def test_a_queue_goes_on_where_another_ended() -> None:
    board = Bringup("gfx1100").boot()
    queue, (signal, offset) = board.compute(), board.buffer()
    board.flush()
    board.submit(queue, release(signal, 1))
    board.dequeue(1)
    board.select(me=1)
    board.hqd(queue, 8, 0, 0, CP_HQD_PQ_WPTR_LO=8, CP_HQD_PQ_RPTR=8)
    board.select()
    board.submit(queue, release(signal, 2))
    check(board.word(offset) == 2, "the second release")
    check(board.violations() == [], str(board.violations()))


def test_a_queue_that_waits_may_be_drained() -> None:
    board = Bringup("gfx1100").boot()
    queue, (flag, _) = board.compute(), board.buffer()
    board.flush()
    # src: nvd.h WAIT_REG_MEM: memory, equal
    wait = [0xC0053C00, 3 | 1 << 4, flag & 0xFFFFFFFF, flag >> 32, 1, 0xFFFFFFFF, 4]
    board.submit(queue, wait)
    check(board.read("GC", "GRBM_STATUS") >> 31 == 1, "busy")
    board.dequeue(1)
    check(not board.active(), "it stays")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"CP_HQD_PQ_DOORBELL_CONTROL": 0}, "no doorbell"),
        ({"CP_HQD_PQ_DOORBELL_CONTROL": 1 << 30 | 0x400 << 2}, "not in the engine's range"),
        ({"CP_HQD_PQ_BASE": 0x7000_0000}, "the ring: unmapped"),
        ({"CP_HQD_EOP_BASE_ADDR": 0x7000_0000}, "the EOP buffer: unmapped"),
        ({"CP_HQD_PQ_RPTR_REPORT_ADDR": 0, "CP_HQD_PQ_RPTR_REPORT_ADDR_HI": 0}, "read pointer"),
        ({"CP_HQD_VMID": 11}, "VMID 11 is not enabled"),
        ({"CP_HQD_AQL_CONTROL": 1}, "SLOT_BASED_WPTR"),
        ({"CP_HQD_PQ_RPTR": 4}, "read pointer 4"),
    ],
)
def test_queues_that_cannot_be(changes: dict[str, int], what: str) -> None:
    board = Bringup("gfx1100").boot()
    board.compute(**changes)
    check(any(what in text for text in board.violations()), str(board.violations()))


def test_the_mqd_in_memory_is_the_one_in_registers() -> None:
    board = Bringup("gfx1100").boot()
    queue = board.compute()
    board.dequeue(1)
    board.select(me=1)
    board.write("GC", "CP_HQD_PQ_BASE", queue.eop[0] >> 8)
    board.write("GC", "CP_HQD_ACTIVE", 1)
    check("another CP_HQD_PQ_BASE" in board.violations()[0], str(board.violations()))


def test_registers_of_an_active_queue_stay() -> None:
    board = Bringup("gfx1100").boot()
    board.compute()
    board.select(me=1)
    board.write("GC", "CP_HQD_PQ_CONTROL", 0)
    check("written while it is active" in board.violations()[0], str(board.violations()))


def test_rings_in_vram_need_an_hdp_flush() -> None:
    board = Bringup("gfx1100").boot()
    queue, (va, offset) = board.compute(), board.buffer()
    board.flush()
    board.submit(queue, write_data(va, 1))
    board.submit(queue, write_data(va, 2), flush=False)
    check("doorbell without HDP flush" in board.violations()[0], str(board.violations()))
    check(board.word(offset) == 2, "it ran")


def test_a_queue_starts_while_a_flush_of_its_mqd_is_under_way() -> None:
    board = Bringup("gfx1100").boot()
    board.compute()
    board.dequeue(1)
    board.select(me=1)
    board.gpu.board.flush_hdp()
    board.write("GC", "CP_HQD_ACTIVE", 1)
    check("HDP flush under way" in board.violations()[0], str(board.violations()))


def test_work_before_sh_mem_is_set() -> None:
    board = Bringup("gfx1100").boot()
    queue, (va, _) = board.compute(), board.buffer()
    board.select(vmid=8)
    board.write("GC", "SH_MEM_BASES", 0)
    board.select()
    board.flush()
    board.submit(queue, write_data(va, 1))
    check("SH_MEM_BASES of VMID 8" in board.violations()[0], str(board.violations()))


def test_a_doorbell_of_four_bytes() -> None:
    board = Bringup("gfx1100").boot()
    board.compute()
    board.gpu.write(2, 4 * COMPUTE_DOORBELL, 4, 0)
    check("not 8" in " ".join(board.violations()), str(board.violations()))


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201"])
def test_the_engine_needs_an_address_to_start_at(name: str) -> None:
    board = Bringup(name).boot()
    board.gpu.mode1_reset()
    board.gpu.config.write(4, b"\x06\x00")
    board.write("GC", "CP_MEC_RS64_CNTL", 1 << 26)
    check("start address" in board.violations()[0], str(board.violations()))


def test_a_halted_engine_runs_nothing_until_it_is_let_go() -> None:
    board = Bringup("gfx1100").boot()
    queue, (signal, offset) = board.compute(), board.buffer()
    board.flush()
    board.fields("GC", "CP_MEC_RS64_CNTL", mec_halt=1)
    board.submit(queue, release(signal, 1))
    check(board.word(offset) == 0, "a halted engine ran")
    board.fields("GC", "CP_MEC_RS64_CNTL", mec_halt=0)
    board.gpu.pump()
    check(board.word(offset) == 1, "it goes on")


def test_a_soft_reset_of_the_processor() -> None:
    board = Bringup("gfx1100").boot()
    board.compute()
    board.write("GC", "GRBM_SOFT_RESET", 1 << 18)
    check(not board.active(), "queues are gone")
    check(board.read("GC", "CP_MEC_RS64_CNTL") >> 30 == 1, "it is halted")


def test_safe_mode() -> None:
    board = Bringup("gfx1100").boot()
    board.write("GC", "RLC_SAFE_MODE", 3)
    check(board.read("GC", "RLC_SAFE_MODE") & 1 == 0, "entered")
    board.write("GC", "RLC_SAFE_MODE", 1)
    check(board.read("GC", "RLC_SAFE_MODE") & 1 == 0, "left")
    check(board.violations() == [], str(board.violations()))
    check(board.read("GC", "RLC_RLCS_BOOTLOAD_STATUS") >> 31 == 1, "BOOTLOAD_COMPLETE")


def test_scratch_registers_last_until_a_reset() -> None:
    board = Bringup("gfx1100").boot()
    board.write("GC", "SCRATCH_REG7", 0x1234)
    check(board.read("GC", "SCRATCH_REG7") == 0x1234, "kept")
    board.gpu.mode1_reset()
    check(board.read("GC", "SCRATCH_REG7") == 0, "forgotten")


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201"])
def test_a_copy_engine_that_hangs(name: str) -> None:
    board = Bringup(name).boot()
    copies, (signal, offset) = board.sdma(), board.buffer()
    board.flush()
    board.gpu.graphics.sdma.hang((0, 0))
    fence = [0x30005, signal & 0xFFFFFFFF, signal >> 32, 1]
    board.copy(copies, fence)
    check(board.word(offset) == 0, "a hung engine ran")
    board.fields("GC", copies.at + "RB_CNTL", rb_enable=0)
    check(not board.read("GC", copies.at + "CONTEXT_STATUS") >> 2 & 1, "it is not idle")
    board.write("GC", "GRBM_SOFT_RESET", 1 << 23)
    board.write("GC", "GRBM_SOFT_RESET", 0)
    check(board.read("GC", copies.at + "CONTEXT_STATUS") >> 2 & 1, "idle after the reset")
    again = board.sdma()
    board.flush()
    board.copy(again, fence)
    check(board.word(offset) == 1, "it works again")


def test_a_copy_engine_that_is_halted() -> None:
    board = Bringup("gfx1100").boot()
    copies, (signal, offset) = board.sdma(), board.buffer()
    board.flush()
    board.write("GC", "SDMA0_F32_CNTL", 1)
    board.copy(copies, [0x30005, signal & 0xFFFFFFFF, signal >> 32, 1])
    check(board.word(offset) == 0, "halted")
    board.write("GC", "SDMA0_F32_CNTL", 0)
    board.gpu.pump()
    check(board.word(offset) == 1, "let go")


@pytest.mark.parametrize("poll", [0, 1])
def test_a_copy_engine_that_polls_its_write_pointer(poll: int) -> None:
    board = Bringup("gfx1100").boot()
    copies, (signal, offset) = board.sdma(), board.buffer()
    board.flush()
    board.fields("GC", copies.at + "RB_CNTL", f32_wptr_poll_enable=poll)
    board.words(copies.ring[1], [0x30005, signal & 0xFFFFFFFF, signal >> 32, 7])
    board.words(copies.pointers[1] + 56, [16, 0])
    board.gpu.pump()
    check(board.word(offset) == 7 * poll, f"polling is {poll}")


def test_copy_rings_that_change_while_they_run() -> None:
    board = Bringup("gfx1100").boot()
    copies = board.sdma()
    board.write("GC", copies.at + "RB_BASE", 0)
    check("while the ring is enabled" in board.violations()[0], str(board.violations()))


def test_a_disabled_copy_rings_pointer_is_set_by_its_doorbell() -> None:
    """src: sdma_v4_4_2_gfx_resume(): while MINOR_PTR_UPDATE is on, before RB_ENABLE"""
    board = Bringup("gfx942").boot()
    copies = board.sdma()
    board.fields("SDMA0", "SDMA_GFX_RB_CNTL", rb_enable=0)
    board.gpu.write(2, 4 * copies.index, 8, 0x100)
    check("is not enabled" in board.violations()[0], str(board.violations()))
    board.hardware.forget_violations()
    board.write("SDMA0", "SDMA_GFX_MINOR_PTR_UPDATE", 1)
    board.gpu.write(2, 4 * copies.index, 8, 0x200)
    check(board.read("SDMA0", "SDMA_GFX_RB_WPTR") == 0x200, "not taken")
    check(board.violations() == [], str(board.violations()))


def test_gfx942s_copy_engine_is_asked_for_when_it_gets_work() -> None:
    """src: sdma_v4_4_2_inst_start() enables the ring before SDMA_CNTL.UTC_L1_ENABLE"""
    board = Bringup("gfx942").boot()
    copies, (signal, offset) = board.sdma(), board.buffer()
    board.fields("SDMA0", "SDMA_CNTL", utc_l1_enable=0)
    board.flush()
    check(board.violations() == [], str(board.violations()))
    board.copy(copies, [0x00005, signal & 0xFFFFFFFF, signal >> 32, 1])
    check("is given work, and cannot run" in board.violations()[0], str(board.violations()))
    check(board.word(offset) == 0, "it ran")
