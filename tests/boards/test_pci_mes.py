"""The schedulers of a board: frames and packets as amdgpu makes them."""

from __future__ import annotations

import struct

import pytest

from boards.amd.pci import mes_frames as frames
from boards.amd.pci import mqd
from boards.amd.pci.processes import Processes
from tests.boards.bare_function import Bare
from tests.support import check

# src: mes_v11_api_def.h and mes_v12_api_def.h, dwords as gcc 14 printed offsetof() / 4
ADD_QUEUE = {11: (37, 19, 27, 35, 48), 12: (38, 20, 28, 36, 50)}


@pytest.mark.parametrize("major", [11, 12])
def test_members_lie_where_the_header_puts_them(major: int) -> None:
    m = frames.MEMBERS[major]
    got = m.status[frames.ADD_QUEUE], m.mqd, m.queue_type, m.context_control, m.pipe
    check(got == ADD_QUEUE[major], f"{got}")


def test_a_process_keeps_its_vmid_while_it_has_queues() -> None:
    """src: gfx_v11_0.c: VMIDs 8 to 15 are the scheduler's, mask 0xff00"""
    bare = Bare("gfx1100")
    graphics = bare.gpu.graphics
    processes = Processes(bare.gpu.board, graphics.gc_hub)
    processes.give(0xFF00)
    root = 0x12_3000
    first = processes.enter(0x8001, root, 0)
    check((processes.enter(0x8001, root, 0), first) == (8, 8), "the same process")
    check(processes.enter(0x8002, root, 0) == 9, "another process")
    base = graphics.gc_hub.first.get("GCVM_CONTEXT8_PAGE_TABLE_BASE_ADDR_LO32")
    check(base == root | 1, f"page table base {base:#x}")
    table = bare.gpu.board.block("OSSSYS")
    check(table.get("IH_VMID_8_LUT") == 0x8001, "PASID of the interrupt handler")
    processes.leave(0x8001)
    check(table.get("IH_VMID_8_LUT") == 0x8001, "one queue is left")
    processes.leave(0x8001)
    check(table.get("IH_VMID_8_LUT") == 0, "the last queue is gone")
    check(processes.enter(0x8003, root, 0) == 8, "its VMID is free again")
    many = [processes.enter(0x9000 + n, root, 0) for n in range(8)]
    check(many[-1] is None, "there are eight VMIDs")


def test_a_frame_that_is_not_modelled_gets_no_answer() -> None:
    """src: mes_v11_api_def.h: opcode 9 is SET_LOG_BUFFER, header type 1 and 64 dwords"""
    bare = Bare("gfx1100")
    mes = bare.gpu.graphics.mes
    mes._run((1 | 9 << 4 | 64 << 12, *[0] * 63))
    kinds = [violation.kind for violation in bare.gpu.violations]
    check(kinds == ["MES frame that is not modelled"], f"{kinds}")


def test_a_graphics_mqd_is_read_as_v11_structs_has_it() -> None:
    """src: v11_structs.h struct v11_gfx_mqd; gfx_v11_0.c gfx_v11_0_gfx_mqd_init()"""
    words = [0] * 512
    words[136], words[137] = 0x1234_5678, 0x1
    words[139], words[140] = 0x9000, 0x2
    words[141], words[142] = 0xA000, 0x3
    words[143] = 0x2A << 2
    words[145] = 9
    made = mqd.graphics(tuple(words), 7)
    check(made.spec.ring_va == 0x1_1234_5678 << 8, f"{made.spec.ring_va:#x}")
    check((made.spec.rptr_va, made.spec.wptr_va) == (0x2_0000_9000, 0x3_0000_A000), "pointers")
    check((made.spec.ring_bytes, made.doorbell_dw) == (4096, 0x2A), "size, doorbell")


def test_words_of_an_mqd_are_little_endian() -> None:
    check(mqd.words_of(struct.pack("<2I", 0xC031_0800, 1)) == (0xC031_0800, 1), "words")
