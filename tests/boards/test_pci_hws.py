"""gfx942's scheduler of processes, as KFD feeds it through its HIQ: run lists and their end.

Packets by hand from Linux 6.12's kfd_pm4_headers_ai.h and kfd_pm4_headers_aldebaran.h, MQDs by
v9_structs.h.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tests.boards.pci_bringup import MQD, RING_BYTES, Bringup, release
from tests.boards.pci_rig import VALID
from tests.boards.test_pci_xcc_queues import (
    BAD_OPCODE,
    DOORBELL_CONTROL,
    HIQ,
    active,
    booted,
    kiq,
    mapping,
    mqd_of,
    queue,
    send,
    status,
)
from tests.support import check

# src: soc15d.h PACKET3_*; kfd_pm4_opcodes.h. Counts are dwords of the body less one
SET_RESOURCES, RUN_LIST, UNMAP = 0xC006A000, 0xC002A500, 0xC004A300
MAP_PROCESS, MAP_QUEUES = 0xC013A100, 0xC005A200
HIQ_TYPE, VMIDS = 1 << 29, 0xFF00
PLACES = (2 | 4) << 8 | 8
"""Bits of the queue mask: pipe 1, queues 1 and 2; pipe 0, queue 3.
src: amdgpu_gfx.c amdgpu_queue_mask_bit_to_set_resource_bit()"""
BY_PASID, ALL_DYNAMIC, RESET = 1 << 4, 3 << 4, 1
SDMA_0_TO_7, SDMA_8_TO_15 = 1 << 2, 2 << 2
SAVED = (138, 182, 183)
"""Dwords of cp_hqd_pq_rptr, cp_hqd_pq_wptr_lo and _hi. src: v9_structs.h struct v9_mqd"""
PASID, TRAP_EN = 0x8001, 1
STRIDE_DW, HIQ_DOORBELL, DOORBELL, COPIES = 226, 0x30, 0x1800, 0x1A00
"""The processes' doorbells are in later pages of the BAR than the kernel's. SDMA0's are from 0x200
on in each: pci_bringup.SDMA_DOORBELL."""


def pair(value: int) -> list[int]:
    return [value & 0xFFFFFFFF, value >> 32]


def process(board: Bringup, pasid: int = PASID, queues: int = 1, trap: int = 0) -> list[int]:
    """21 dwords of struct pm4_mes_map_process_aldebaran."""
    return [
        MAP_PROCESS, pasid | 10 << 25, *pair(board.root | VALID), 0x20001, 0x1118, *pair(trap),
        *pair(trap), 0, 0, 0, queues << 22 | 1 << 7, TRAP_EN, 0, 0, 0, 0, 0, 0,
    ]  # fmt: skip


def listed(mqd: int, doorbell: int, wptr: int, engine: int = 0) -> list[int]:
    return [MAP_QUEUES, 1 << 29 | 1 << 4 | engine, doorbell << 2, *pair(mqd), *pair(wptr)]


class Kfd:
    """A board with an HIQ on all XCCs, and resources."""

    def __init__(self, *, vmids: int = VMIDS) -> None:
        self.board = board = booted()
        for vmid in range(8, 16):  # as gfxhub_v1_2_xcc_setup_vmid_config()
            board.context(vmid, 0)
        self.hiq = queue(board, 5, HIQ_DOORBELL)
        for xcc in range(8):
            mqd = mqd_of(board, self.hiq, xcc, enable=False)
            send(board, kiq(board, xcc), mapping(mqd, HIQ_DOORBELL, HIQ))
        resources = [SET_RESOURCES, HIQ_TYPE | vmids, PLACES, 0, 0, 0, 0, 0]
        send(board, self.hiq, resources)

    def queue(self, number: int, doorbell: int) -> SimpleNamespace:
        """A compute queue of a process: eight MQDs, one behind the other, not enabled."""
        board = self.board
        made = queue(board, number, 0x20)
        for xcc in range(8):
            mqd_of(board, made, xcc, enable=False)
            offset = MQD + 0x1000 * (number * 8 + xcc)
            board.words(offset + 4 * STRIDE_DW, [0x1000])
            board.words(offset + 4 * DOORBELL_CONTROL, [doorbell << 2])
        made.doorbell = doorbell
        made.mqd = board.gpu.board.mc_base + MQD + 0x1000 * number * 8
        made.wptr = made.pointers[0] + 56
        board.hdp()
        return made

    def copies(self, engine: int, number: int, doorbell: int) -> SimpleNamespace:
        """A copy queue of a process. src: v9_structs.h struct v9_sdma_mqd"""
        board = self.board
        made = queue(board, 0, doorbell)
        words = np.zeros(128, np.uint32)
        size = (RING_BYTES // 4).bit_length() - 1
        words[0], words[1:3] = size << 1 | 1 << 12, pair(made.ring[0] >> 8)
        words[8], words[9] = (made.pointers[0] + 128) >> 32, made.pointers[0] + 128 & 0xFFFFFFFF
        words[22], words[126], words[127] = doorbell << 2, engine, number
        offset = MQD + 0x8_0000
        board.words(offset, words)
        made.mqd, made.wptr = board.gpu.board.mc_base + offset, made.pointers[0] + 56
        board.write("SDMA0", "SDMA_CNTL", 3, engine)
        board.hdp()
        return made

    def run(self, words: list[int], control: int | None = None) -> None:
        """RUN_LIST of a list that is put into memory."""
        va, offset = self.board.buffer()
        self.board.words(offset, words)
        self.board.flush(0)
        if control is None:
            control = len(words) | 1 << 23 | 1 << 24
        send(self.board, self.hiq, [RUN_LIST, *pair(va), control])

    def unmap(self, how: int, pasid: int = 0) -> int:
        """UNMAP_QUEUES and a fence; what the fence holds then."""
        fence, offset = self.board.buffer()
        self.board.flush(0)
        packet = [UNMAP, how, pasid, 0, 0, 0]
        send(self.board, self.hiq, packet + status(fence, 2))
        return self.board.word(offset)

    def field(self, name: str, vmid: int, xcc: int = 0) -> int:
        """A register of a VMID, without a selection."""
        return self.board.block("GC", xcc).get(name, vmid)

    def stopped(self) -> bool:
        """Whether the HIQ reported a bad packet."""
        entries = self.board.entries()
        return bool(entries) and entries[-1][0] >> 8 & 0xFF == BAD_OPCODE

    def signalled(self, made: SimpleNamespace, value: int) -> bool:
        """Whether the queue runs a RELEASE_MEM."""
        signal, offset = self.board.buffer()
        self.board.flush()
        send(self.board, made, release(signal, value, family="gfx9"))
        return self.board.word(offset) == value


def mapped(board: Bringup) -> list[list[int]]:
    """XCCs on which each place of the mask is active."""
    places = ((0, 3), (1, 1), (1, 2))
    return [[x for x in range(8) if on(board, x, *place)] for place in places]


def on(board: Bringup, xcc: int, pipe: int, number: int) -> bool:
    return bool(board.block("GC", xcc).get("CP_HQD_ACTIVE", (1, pipe, number)) & 1)


def test_a_listed_queue_runs_on_all_xccs_with_a_vmid_of_the_scheduler() -> None:
    kfd = Kfd()
    made = kfd.queue(6, DOORBELL)
    kfd.run(process(kfd.board) + listed(made.mqd, DOORBELL, made.wptr))
    check(mapped(kfd.board) == [list(range(8)), [], []], f"{mapped(kfd.board)}")
    for xcc in (0, 7):
        found = [kfd.field(n, 8, xcc) for n in ("SH_MEM_BASES", "SH_MEM_CONFIG")]
        check(found == [0x20001, 0x1118], f"XCC {xcc}: {found}")
        check(kfd.field("SPI_GDBG_PER_VMID_CNTL", 8, xcc) == TRAP_EN, "trap enable")
        base = kfd.board.block("GC", xcc).get("VM_CONTEXT8_PAGE_TABLE_BASE_ADDR_LO32")
        check(base == kfd.board.root | VALID, f"XCC {xcc}: {base:#x}")
    base = kfd.board.block("MMHUB", 3).get("VM_CONTEXT8_PAGE_TABLE_BASE_ADDR_LO32")
    check(base == kfd.board.root | VALID, f"memory hub: {base:#x}")
    check(kfd.board.block("OSSSYS").get("IH_VMID_8_LUT") == PASID, "PASID")
    check(kfd.signalled(made, 5), "it runs")
    check(kfd.board.violations() == [], str(kfd.board.violations()))


def test_an_unmapped_queue_goes_on_where_it_was_once_it_is_listed_again() -> None:
    kfd = Kfd()
    made = kfd.queue(6, DOORBELL)
    packets = process(kfd.board) + listed(made.mqd, DOORBELL, made.wptr)
    kfd.run(packets)
    check(kfd.signalled(made, 5), "it runs")
    check(kfd.unmap(ALL_DYNAMIC) == 2, "the fence")
    check(mapped(kfd.board) == [[], [], []], f"{mapped(kfd.board)}")
    for xcc in (0, 7):
        saved = [kfd.board.word(MQD + 0x1000 * (6 * 8 + xcc) + 4 * dw) for dw in SAVED]
        check(saved == [made.put, made.put, 0], f"MQD of XCC {xcc}: {saved}")
    check(kfd.board.block("OSSSYS").get("IH_VMID_8_LUT") == 0, "no PASID")
    signal, offset = kfd.board.buffer()
    kfd.board.flush()
    send(kfd.board, made, release(signal, 6, family="gfx9"))
    check(kfd.board.word(offset) == 0, "it does not run, and its doorbell is no violation")
    kfd.run(packets)
    check(kfd.board.word(offset) == 6, "it does what was written meanwhile")
    check(kfd.signalled(made, 7), "and what comes then")
    check(kfd.board.violations() == [], str(kfd.board.violations()))


def test_one_process_leaves_and_another_stays() -> None:
    kfd = Kfd()
    first, second = kfd.queue(6, DOORBELL), kfd.queue(7, DOORBELL + 2)
    kfd.run(
        process(kfd.board) + listed(first.mqd, DOORBELL, first.wptr)
        + process(kfd.board, PASID + 1) + listed(second.mqd, DOORBELL + 2, second.wptr)
    )  # fmt: skip
    table = kfd.board.block("OSSSYS")
    check([table.get(f"IH_VMID_{n}_LUT") for n in (8, 9)] == [PASID, PASID + 1], "VMIDs")
    check(kfd.unmap(BY_PASID | RESET, PASID) == 2, "the fence")
    check([table.get(f"IH_VMID_{n}_LUT") for n in (8, 9)] == [0, PASID + 1], "the first is gone")
    check(mapped(kfd.board) == [[], list(range(8)), []], f"{mapped(kfd.board)}")
    check(kfd.signalled(second, 4), "the second runs")
    check(kfd.board.violations() == [], str(kfd.board.violations()))


@pytest.mark.parametrize(("number", "engine"), [
    (0, 2 << 26), (1, 3 << 26), (3, SDMA_0_TO_7 | 3 << 26), (15, SDMA_8_TO_15 | 7 << 26),
])  # fmt: skip
def test_a_copy_queue_runs_on_the_engine_that_its_packet_names(number: int, engine: int) -> None:
    """src: kfd_packet_manager_v9.c pm_map_queues_v9(); pm_use_ext_eng() is false of SDMA 4.4.2"""
    kfd = Kfd()
    made = kfd.copies(number, 1, COPIES + number * 20)
    kfd.run(process(kfd.board) + listed(made.mqd, made.doorbell, made.wptr, engine))
    signal, offset = kfd.board.buffer()
    kfd.board.flush()
    made.index = made.doorbell
    kfd.board.copy(made, [5, *pair(signal), 1])
    check(kfd.board.word(offset) == 1, f"it does not run: {kfd.board.violations()}")
    control = kfd.board.block("SDMA0", number)
    fields = [control.field("SDMA_RLC1_RB_CNTL", name) for name in ("RB_ENABLE", "RB_VMID")]
    check(fields == [1, 8], f"{fields}")
    check(kfd.unmap(ALL_DYNAMIC) == 2, "the fence")
    check(not control.field("SDMA_RLC1_RB_CNTL", "RB_ENABLE"), "unmapped")
    kfd.board.copy(made, [5, *pair(signal), 2])
    kfd.run(process(kfd.board) + listed(made.mqd, made.doorbell, made.wptr, engine))
    check(kfd.board.word(offset) == 2, "it goes on")
    check(kfd.board.violations() == [], str(kfd.board.violations()))


def test_a_copy_queues_doorbell_needs_the_route_of_its_engine() -> None:
    """src: nbio_v7_9.c sdma_doorbell_range(): port 1 of a base die is its first engine's"""
    kfd = Kfd()
    made = kfd.copies(4, 0, COPIES + 4 * 20)
    kfd.run(process(kfd.board) + listed(made.mqd, made.doorbell, made.wptr, SDMA_0_TO_7 | 4 << 26))
    kfd.board.block("NBIF", 1).write("S2A_DOORBELL_ENTRY_1_CTRL", 0)
    kfd.board.gpu.write(2, 4 * made.doorbell, 8, 0)
    check("doorbell lost" in str(kfd.board.violations()), f"{kfd.board.violations()}")


def bad_lists(kfd: Kfd) -> dict[str, list[int]]:
    made = kfd.queue(6, DOORBELL)
    good = listed(made.mqd, DOORBELL, made.wptr)
    second = process(kfd.board, PASID + 1) + listed(made.mqd, DOORBELL + 2, made.wptr)
    return {
        "no process": good,
        "more queues than said": process(kfd.board, queues=0) + good,
        "static queue": [*process(kfd.board), good[0], good[1] | 2 << 21, *good[2:]],
        "named place": [*process(kfd.board), good[0], good[1] & ~(3 << 4), *good[2:]],
        "reserved bit": [*process(kfd.board), good[0], good[1], good[2] | 1, *good[3:]],
        "debug VMID": [MAP_PROCESS, process(kfd.board)[1] | 1 << 18, *process(kfd.board)[2:]],
        "another packet": [*process(kfd.board), 0xC0001000, 0],
        "zeros": process(kfd.board) + good + [0] * 7,
        "cut": (process(kfd.board) + good)[:-1],
        "chained to another": process(kfd.board) + good + [RUN_LIST, 0x1000, 0, 1 << 20 | 1 << 23],
        "twice a doorbell": process(kfd.board, queues=2) + good + good,
        "more processes than VMIDs": process(kfd.board) + good + second,
        "no MQD": process(kfd.board) + listed(0x7_0000_0000, DOORBELL, made.wptr),
        "another engine than the MQD's": process(kfd.board)
        + listed(kfd.copies(3, 1, COPIES).mqd, COPIES, made.wptr, SDMA_0_TO_7 | 2 << 26),
    }


@pytest.mark.parametrize("name", [
    "no process", "more queues than said", "static queue", "named place", "reserved bit",
    "debug VMID", "another packet", "zeros", "cut", "chained to another", "twice a doorbell",
    "more processes than VMIDs", "no MQD", "another engine than the MQD's",
])  # fmt: skip
def test_a_bad_list_stops_the_hiq(name: str) -> None:
    kfd = Kfd(vmids=0x100)
    kfd.run(bad_lists(kfd)[name])
    check(kfd.stopped(), "it is reported")
    check(kfd.unmap(ALL_DYNAMIC) == 0, "nothing runs behind it")


@pytest.mark.parametrize("words", [
    [RUN_LIST, 0, 0, 21 | 1 << 24], [RUN_LIST, 0, 0x7, 21 | 1 << 23 | 1 << 24],
    [UNMAP, 0, 0, 0, 0, 0], [UNMAP, 3 | ALL_DYNAMIC, 0, 0, 0, 0],
    [SET_RESOURCES, VMIDS, PLACES, 0, 0, 0, 0, 0],
    [SET_RESOURCES, HIQ_TYPE | VMIDS, 0, 1, 0, 0, 0, 0],
], ids=["not valid", "no memory", "by doorbells", "action 3", "not the HIQ's", "second engine"]
)  # fmt: skip
def test_a_bad_packet_stops_the_hiq(words: list[int]) -> None:
    kfd = Kfd()
    send(kfd.board, kfd.hiq, words)
    check(kfd.stopped(), "it is reported")
    check(kfd.unmap(ALL_DYNAMIC) == 0, "nothing runs behind it")


def test_the_hiq_leaves_each_xcc_as_a_compute_queue() -> None:
    """src: amdgpu_amdkfd.c amdgpu_amdkfd_unmap_hiq(): AMDGPU_RING_TYPE_COMPUTE, engine 0"""
    board = booted()
    made = queue(board, 5, HIQ_DOORBELL)
    own = [kiq(board, xcc) for xcc in (0, 1)]
    for xcc in (0, 1):
        mqd = mqd_of(board, made, xcc, enable=False)
        send(board, own[xcc], mapping(mqd, HIQ_DOORBELL, HIQ))
    send(board, own[1], [UNMAP, 1 << 29 | RESET, HIQ_DOORBELL << 2, 0, 0, 0])
    check([active(board, xcc, 2, 0) for xcc in (0, 1)] == [True, False], "XCC 0 has it")
    send(board, own[0], [UNMAP, 1 << 29 | RESET, HIQ_DOORBELL << 2, 0, 0, 0])
    check(not active(board, 0, 2, 0), "gone")
    check(board.violations() == [], str(board.violations()))


@pytest.mark.parametrize(("name", "aql", "without"), [
    ("gfx942", 1, True), ("gfx942", 0, False), ("gfx1100", 1, False),
])  # fmt: skip
def test_only_aql_queues_of_gfx942_do_without_an_eop_buffer(
    name: str, aql: int, without: bool
) -> None:
    """src: ROCR-Runtime libhsakmt/src/queues.c, eop_buffer_size; CP_HQD_AQL_CONTROL__CONTROL0"""
    board = Bringup(name).boot()
    changes = {"CP_HQD_EOP_BASE_ADDR": 0, "CP_HQD_EOP_BASE_ADDR_HI": 0}
    board.compute(CP_HQD_AQL_CONTROL=aql, **changes)
    reported = any("the EOP buffer: address 0" in text for text in board.violations())
    check(reported != without, f"{board.violations()}")
