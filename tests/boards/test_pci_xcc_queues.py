"""gfx942's queues of the kernel, as gfx_v9_4_3.c and KFD set them up: a KIQ on each XCC."""

from __future__ import annotations

from types import SimpleNamespace

from tests.boards.pci_bringup import RING_BYTES, Bringup, release
from tests.boards.pci_rig import VALID
from tests.support import check

# src: amdgpu_gfx.c amdgpu_gfx_kiq_acquire(): micro engine 2, pipe 1, queue 0;
# gfx_v9_4_3_xcc_kiq_setting(); soc15d.h for packets
ME, PIPE, NAMES_KIQ = 2, 1, 0x80 | 2 << 5 | 1 << 3
MAP_QUEUES, UNMAP_QUEUES, QUERY_STATUS, SET_UCONFIG = 0xC005A200, 0xC004A300, 0xC005A400, 0xC0017900
ONE_QUEUE, HIQ = 1 << 29, 1 << 26
SCRATCH_REG0 = 0x40
"""Of the first XCC, from 0xC000. src: gc_9_4_3_offset.h regSCRATCH_REG0 0x2040 of segment 1"""
NODES = (1, 2, 5, 6, 9, 10, 13, 14)
"""src: amdgpu_irq.h enum amdgpu_interrupt_node_id_per_aid, XCD0_NODEID to XCD7_NODEID"""
BAD_OPCODE = 183
"""src: irqsrcs_gfx_9_0.h"""
DOORBELL_CONTROL = 143
"""src: v9_structs.h struct v9_mqd: cp_hqd_pq_doorbell_control"""
ON = 1 << 30
"""src: gc_9_4_3_sh_mask.h CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_EN"""


def booted() -> Bringup:
    board = Bringup("gfx942").boot()
    board.context(0, board.root | VALID)
    return board


def queue(board: Bringup, number: int, doorbell: int) -> SimpleNamespace:
    ring, pointers, eop = board.buffer(RING_BYTES), board.buffer(), board.buffer()
    return SimpleNamespace(
        ring=ring, pointers=pointers, put=0, queue=number, eop=eop, doorbell=doorbell
    )


def kiq(board: Bringup, xcc: int, *, named: bool = True) -> SimpleNamespace:
    made = queue(board, 0, 0x40 * xcc)
    board.flush(0)
    board.write("GC", "RLC_CP_SCHEDULERS", NAMES_KIQ * named, xcc)
    board.select(me=ME, pipe=PIPE, instance=xcc)
    board.hqd(made, 0, 0, xcc, CP_HQD_PQ_DOORBELL_CONTROL=ON | made.doorbell << 2)
    board.select(instance=xcc)
    return made


def mqd_of(board: Bringup, made: SimpleNamespace, xcc: int, *, enable: bool = True) -> int:
    """An MQD in memory, which `Bringup.hqd` writes, for a queue that is then gone again."""
    board.select(me=1, pipe=3, queue=7, instance=xcc)
    control = ON | made.doorbell << 2
    board.hqd(made, 0, made.queue, xcc, CP_HQD_PQ_DOORBELL_CONTROL=control)
    board.write("GC", "CP_HQD_DEQUEUE_REQUEST", 1, xcc)
    address = board.read("GC", "CP_MQD_BASE_ADDR", xcc)
    address |= board.read("GC", "CP_MQD_BASE_ADDR_HI", xcc) << 32
    board.select(instance=xcc)
    offset = address - board.gpu.board.mc_base + 4 * DOORBELL_CONTROL
    board.words(offset, [control if enable else control & ~ON])
    board.hdp()
    return address


def send(board: Bringup, made: SimpleNamespace, words: list[int]) -> None:
    ring = board.vram.bytes[made.ring[1] : made.ring[1] + RING_BYTES].view("<u4")
    ring[made.put : made.put + len(words)] = words
    made.put += len(words)
    board.words(made.pointers[1] + 56, [made.put, 0])
    board.hdp()
    board.gpu.write(2, 4 * made.doorbell, 8, made.put)


def mapping(mqd: int, doorbell: int, engine: int = 0) -> list[int]:
    return [MAP_QUEUES, ONE_QUEUE | engine, doorbell << 2, mqd & 0xFFFFFFFF, mqd >> 32, 0, 0]


def active(board: Bringup, xcc: int, me: int = 1, pipe: int = 0) -> bool:
    board.select(me=me, pipe=pipe, instance=xcc)
    found = board.read("GC", "CP_HQD_ACTIVE", xcc)
    board.select(instance=xcc)
    return bool(found & 1)


def status(va: int, value: int) -> list[int]:
    return [QUERY_STATUS, 0, 0, va & 0xFFFFFFFF, va >> 32, value, 0]


def test_packets_name_registers_of_their_own_xcc() -> None:
    """src: gfx_v9_4_3_ring_test_ring(): "Use register offset which is local to XCC"."""
    board = booted()
    for xcc in (0, 5):
        send(board, kiq(board, xcc), [SET_UCONFIG, SCRATCH_REG0, 0xDEAD0000 + xcc])
    found = [board.read("GC", "SCRATCH_REG0", xcc) for xcc in range(8)]
    check(found == [0xDEAD0000, 0, 0, 0, 0, 0xDEAD0005, 0, 0], f"{found}")
    check(board.violations() == [], str(board.violations()))


def test_a_kiq_is_the_one_that_the_rlc_knows() -> None:
    board = booted()
    kiq(board, 1, named=False)
    check("the one that RLC_CP_SCHEDULERS names" in board.violations()[0], "not reported")
    check(not active(board, 1, ME, PIPE), "it was refused")


def test_a_halted_engine_has_a_kiq_and_runs_nothing() -> None:
    """src: gfx_v9_4_3_xcc_cp_resume(): kiq_resume() comes before the engine is let go."""
    board = booted()
    board.write("GC", "CP_MEC_CNTL", 1 << 30, 2)
    made = kiq(board, 2)
    check(board.violations() == [], str(board.violations()))
    send(board, made, [SET_UCONFIG, SCRATCH_REG0, 1])
    check("is given work, and cannot run" in board.violations()[0], str(board.violations()))
    check(board.read("GC", "SCRATCH_REG0", 2) == 0, "a halted engine ran")


def test_a_queue_is_mapped_on_one_xcc_and_unmapped() -> None:
    board = booted()
    own, made = kiq(board, 2), queue(board, 4, 0x34)
    mqd = mqd_of(board, made, 2)
    send(board, own, mapping(mqd, made.doorbell))
    check([active(board, xcc) for xcc in (0, 2)] == [False, True], "XCC 2 alone has it")
    signal, offset = board.buffer()
    board.flush(0)
    send(board, made, release(signal, 7, event=9, family="gfx9"))
    check(board.word(offset) == 7, "it runs")
    entry = board.entries()[-1]
    check((entry[4], entry[3] >> 16 & 0xFF) == (9, NODES[2]), f"{[hex(w) for w in entry]}")
    check(board.violations() == [], str(board.violations()))
    send(board, own, [UNMAP_QUEUES, ONE_QUEUE, made.doorbell << 2, 0, 0, 0])
    check(not active(board, 2), "unmapped")
    send(board, made, release(signal, 8, family="gfx9"))
    check("doorbell without a queue" in board.violations()[0], str(board.violations()))


def test_a_mapped_place_and_a_taken_doorbell_are_refused() -> None:
    board = booted()
    own, made = kiq(board, 0), queue(board, 4, 0x34)
    mqd = mqd_of(board, made, 0)
    send(board, own, mapping(mqd, made.doorbell) * 2)
    check(active(board, 0), "the first stays")
    entry = board.entries()[-1]
    check(entry[0] >> 8 & 0xFF == BAD_OPCODE, "the second faults")


def test_kfds_queue_is_one_ring_of_all_xccs() -> None:
    """src: hiq_load_mqd_kiq_v9_4_3(): an MQD for each, all with one ring; DOORBELL_EN is 0."""
    board = booted()
    made = queue(board, 5, 0x30)
    for xcc in (0, 1):
        mqd = mqd_of(board, made, xcc, enable=False)
        send(board, kiq(board, xcc), mapping(mqd, made.doorbell, HIQ))
    signal, offset = board.buffer()
    board.flush(0)
    send(board, made, status(signal, 3))
    check(board.word(offset) == 3 and board.violations() == [], str(board.violations()))
    for number, (xcc, left) in enumerate(((1, True), (0, False))):
        board.select(me=ME, pipe=0, instance=xcc)
        board.write("GC", "CP_HQD_DEQUEUE_REQUEST", 1, xcc)
        board.select(instance=xcc)
        send(board, made, status(signal, 4 + number))
        check(board.word(offset) == 4, f"{board.word(offset)}")
        reported = any("without a queue" in text for text in board.violations())
        check(reported != left, f"XCC {xcc}: {board.violations()}")
