"""What the kernel's KFD relies on when a queue of a process faults: reset values, words, doorbells.

Each of these the real amdgpu of `make vm` has shown (docs/witnesses.md).
"""

from __future__ import annotations

import pytest

from boards.amd.cp.engine_types import PacketFault
from boards.amd.pci import mes_frames as f
from boards.amd.pci.process_queues import Wanted, _Added
from tests.boards.bare_function import Bare
from tests.boards.pci_bringup import COMPUTE_DOORBELL, VMID, Bringup
from tests.support import check

GRBM_CP = 0x14
BAD_OPCODE, SQ_MESSAGE = 183, 239
"""src: soc21_int.h SOC21_IH_CLIENTID_GRBM_CP; amdkfd/soc15_int.h"""
PASID, ROOT = 0x8001, 0x12_3000
ADDED, OTHER = 0x1000, 0x1002
"""Doorbells, in dwords."""


def test_contexts_report_faults_after_reset() -> None:
    """src: gc_11_0_0_default.h regGCVM_CONTEXT1_CNTL_DEFAULT; bits 23 and 24 (secure) have
    no field in gc_11_0_0_sh_mask.h"""
    bare = Bare("gfx1100")
    got = {bare.read("GC", f"GCVM_CONTEXT{n}_CNTL") for n in range(16)}
    check(got == {0x01FF_FE00 & ~(3 << 23)}, f"{[hex(one) for one in got]}")


@pytest.mark.parametrize("name", ["gfx1201", "gfx942"])
def test_contexts_of_others_report_them_too(name: str) -> None:
    """src: gfxhub_v12_0.c, gfxhub_v1_2.c setup_vmid_config() set DEFAULT and leave INTERRUPT"""
    bare = Bare(name)
    prefix = "VM_" if name == "gfx942" else "GCVM_"
    layout = bare.gpu.board.block("GC").table[f"{prefix}CONTEXT0_CNTL"]
    value = bare.read("GC", f"{prefix}CONTEXT1_CNTL")
    for kind in ("RANGE", "PDE0", "VALID", "READ", "WRITE", "EXECUTE"):
        field = f"{kind}_PROTECTION_FAULT_ENABLE_INTERRUPT"
        check(layout.get(value, field) == 1, f"{field} of {value:#x}")
    check(layout.get(value, "ENABLE_CONTEXT") == 0, "and it is not enabled")


def test_a_message_of_a_wave() -> None:
    """src: kfd_int_process_v11.c: DATA 23:0, PRIV 26; ENCODING 39:38, of which 1 is INST"""
    board = Bringup("gfx1100").boot()
    board.gpu.graphics.compute._interrupts.message(VMID, 0x12_3456)
    (entry,) = board.entries()
    check(entry[0] & 0xFFFF == GRBM_CP | SQ_MESSAGE << 8, f"{entry[0]:#x}")
    check(entry[0] >> 24 & 15 == VMID, "its VMID")
    check(entry[4] & 0xFF_FFFF == 0x12_3456 and entry[4] >> 26 & 1 == 1, f"{entry[4]:#x}")
    check(entry[5] >> 6 & 3 == 1, f"{entry[5]:#x}")


def test_a_message_of_a_wave_of_gfx9() -> None:
    """src: kfd_int_process_v9.c KFD_CONTEXT_ID_GET_SQ_INT_DATA; ENCODING 27:26"""
    board = Bringup("gfx942").boot()
    board.gpu.graphics.compute._interrupts.message(VMID, 0x12_3456)
    (entry,) = board.entries()
    low, high = entry[4], entry[5]
    data = low & 0xFFF | low >> 16 & 0xF000 | high << 16 & 0xFF_0000
    check(data == 0x12_3456 and low >> 26 & 3 == 1, f"{low:#x} {high:#x}")


def test_a_wrong_packet_names_its_queue() -> None:
    """src: gfx_v11_0_handle_priv_fault(): me 3:2, pipe 1:0, queue 6:4 of the ring id"""
    board = Bringup("gfx1100").boot()
    board.compute()
    queue = board.compute(queue=1)
    board.flush()
    board.submit(queue, [0xC000_FF00, 0])
    (entry,) = board.entries()
    check(entry[0] & 0xFFFF == GRBM_CP | BAD_OPCODE << 8, f"{entry[0]:#x}")
    check(entry[0] >> 16 & 0xFF == 1 << 2 | 1 << 4, f"ring id {entry[0] >> 16 & 0xFF:#x}")
    check(entry[4] == 0, "PM4 packets have no code")


@pytest.mark.parametrize(("kind", "code"), [("invalid packet", 20), ("reserved packet", 19)])
def test_a_wrong_aql_packet_has_its_code_and_doorbell(kind: str, code: int) -> None:
    """src: kfd_int_process_v11.c KFD_CTXID0_*: doorbell 9:0, code 25:10; kfd_ioctl.h EC_QUEUE_*"""
    board = Bringup("gfx1100").boot()
    queue = board.compute()
    board.flush()
    board.submit(queue, [0xC000_1000, 0])
    graphics = board.gpu.graphics
    (live,) = graphics.compute.queues().values()
    block = graphics.gc_hub.first
    control = block.table["CP_HQD_AQL_CONTROL"].put(0, "CONTROL0", 1)
    block.put("CP_HQD_AQL_CONTROL", control, (1, 0, 0))
    live.host.queue_fault(live.spec, PacketFault(kind))
    word = board.entries()[-1][4]
    check(word == COMPUTE_DOORBELL // 2 | code << 10, f"{word:#x}")


def removed(name: str) -> Bringup:
    """A GPU whose scheduler had one queue of a process, and has removed it."""
    board = Bringup(name).boot()
    mes = board.gpu.graphics.mes
    mes._processes.give(0xFF00)
    mes._processes.enter(PASID, ROOT, 0)
    wanted = Wanted(f.COMPUTE_QUEUE, PASID, VMID, board.gpu.board.mc_base)
    mes.running._added[ADDED] = _Added(wanted, None)
    frame = [f.SCHEDULER | f.REMOVE_QUEUE << 4 | f.FRAME_DW << 12, ADDED, *[0] * 62]
    mes._run(tuple(frame))
    return board


def test_a_doorbell_of_a_removed_queue_is_no_violation() -> None:
    """An evicted process does not know of it. src: kfd_dqm_evict_pasid_mes()"""
    board = removed("gfx1100")
    before = board.violations()
    board.gpu.write(2, 4 * ADDED, 8, 16)
    check(board.violations() == before, str(board.violations()))
    board.gpu.write(2, 4 * OTHER, 8, 16)
    check("doorbell without a queue" in board.violations()[-1], str(board.violations()))
    board.gpu.mode1_reset()
    check(not board.gpu.graphics.mes.running.was_removed(ADDED), "forgotten by a reset")


def test_the_kernels_trap_handler_goes_with_a_queue() -> None:
    """tma_addr of ADD_QUEUE. src: mes_v11_api_def.h, mes_v12_api_def.h: behind api_status"""
    for major, at in ((11, 41), (12, 42)):
        members = f.MEMBERS[major]
        got = members.status[f.ADD_QUEUE] + members.tma_after_status
        check(got == at, f"MES {major}: {got}")
