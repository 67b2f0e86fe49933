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


ADD, REMOVE = frames.ADD_QUEUE, 3
"""src: mes_v11_api_def.h MES_SCH_API_REMOVE_QUEUE"""
PLACES = 8
"""src: amdgpu_mes.c amdgpu_mes_init(): compute_hqd_mask 0xc on each of four pipes"""


class FakeCompute:
    """Compute queues by place, with the doorbells of those that have work."""

    def __init__(self) -> None:
        self.places: dict[tuple[int, int, int], int] = {}
        self.busy: set[int] = set()

    def queues(self) -> dict[tuple[int, int, int], None]:
        return dict.fromkeys(self.places)

    def idle(self, key: tuple[int, int, int]) -> bool:
        return self.places[key] not in self.busy

    def take(self, doorbell_dw: int) -> int:
        self.places = {key: dw for key, dw in self.places.items() if dw != doorbell_dw}
        return 0


def oversubscribed(monkeypatch: pytest.MonkeyPatch) -> tuple[Bare, FakeCompute]:
    """A scheduler whose queues have the doorbell that their MQD's address says."""
    bare, compute = Bare("gfx1100"), FakeCompute()
    mes = bare.gpu.graphics.mes

    def map_queue(
        engine: str, pipe: int, queue: int, mqd_va: int, vmid: int = 0, **how: object
    ) -> str:
        compute.places[1, pipe, queue] = mqd_va >> 12
        return ""

    monkeypatch.setattr(mes.running, "_compute", compute)
    monkeypatch.setattr(mes._queues, "map_queue", map_queue)
    monkeypatch.setattr(mes._queues, "read", lambda va, nbytes: None)
    monkeypatch.setattr(mes._queues, "write", lambda va, data: True)
    mes._processes.give(0xFF00)
    return bare, compute


def frame(opcode: int, doorbell_dw: int) -> tuple[int, ...]:
    """src: mes_v11_api_def.h MESAPI__ADD_QUEUE, MESAPI__REMOVE_QUEUE, by gcc's offsets"""
    m, words = frames.MEMBERS[11], [0] * frames.FRAME_DW
    words[0] = frames.SCHEDULER | opcode << 4 | frames.FRAME_DW << 12
    if opcode == REMOVE:
        words[m.doorbell_of_removal] = doorbell_dw
        return tuple(words)
    words[m.process_id], words[m.queue_type] = 0x8001, frames.COMPUTE_QUEUE
    words[m.doorbell], words[m.mqd] = doorbell_dw, doorbell_dw << 12
    return tuple(words)


def test_an_idle_queue_gives_its_place_up_until_its_doorbell_rings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bare, compute = oversubscribed(monkeypatch)
    mes = bare.gpu.graphics.mes
    for number in range(PLACES):
        mes._run(frame(ADD, number + 1))
    check(sorted(compute.places.values()) == list(range(1, PLACES + 1)), f"{compute.places}")
    compute.busy = {1, 3}
    mes._run(frame(ADD, 20))
    check(2 not in compute.places.values(), "the first without work has gone")
    check({1, 3, 20} < set(compute.places.values()), f"{compute.places}")
    mes.doorbell(2, 8, 1)
    check(2 in compute.places.values(), "it is back")
    check(4 not in compute.places.values(), "in the place of the next without work")
    for number in (4, 2):  # one that waits, and one that is mapped
        mes._run(frame(REMOVE, number))
    check(2 not in compute.places.values(), "removed")
    mes.doorbell(4, 8, 1)
    check(4 not in compute.places.values(), "removed while it waited")
    check(not bare.gpu.violations, f"{bare.gpu.violations}")


def test_a_queue_that_could_not_be_mapped_again_may_be_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bare, compute = oversubscribed(monkeypatch)
    mes = bare.gpu.graphics.mes
    for number in range(PLACES + 1):
        mes._run(frame(ADD, number + 1))
    check(1 not in compute.places.values(), "it has given its place up")
    with monkeypatch.context() as broken:
        broken.setattr(mes._queues, "map_queue", lambda *given, **named: "no MQD")
        mes.doorbell(1, 8, 1)
    found = [str(violation) for violation in bare.gpu.violations]
    check(found == ["MES: the queue of doorbell 1 cannot go on: no MQD"], f"{found}")
    mes.doorbell(1, 8, 1)
    check(1 in compute.places.values(), "it is mapped once that is possible")


def test_more_busy_queues_than_places_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    bare, compute = oversubscribed(monkeypatch)
    compute.busy = set(range(1, PLACES + 1))
    for number in range(PLACES + 1):
        bare.gpu.graphics.mes._run(frame(ADD, number + 1))
    found = [str(violation) for violation in bare.gpu.violations]
    check(found == [f"MES refused: opcode {ADD}: no compute queue is free"], f"{found}")
