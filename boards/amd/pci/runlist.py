"""Run lists: the processes and queues that KFD wants to run, as packets in memory.

src: kfd_packet_manager.c pm_create_runlist_ib() for the order, kfd_packet_manager_v9.c for what is
sent, kfd_pm4_headers_ai.h and kfd_pm4_headers_aldebaran.h (MAP_PROCESS) for the layouts, of Linux
6.12; soc15d.h for opcodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from boards.amd.cp.context import bits, join
from boards.amd.cp.kernel import MAP_PROCESS, MAP_QUEUES, RUN_LIST
from boards.amd.cp.layouts import PacketRule, fields
from boards.amd.pci.mes_frames import COMPUTE_QUEUE, SDMA_QUEUE

_HWS_PLACES, _ONE_QUEUE = 1, 1
"""src: queue_sel__mes_map_queues__map_to_hws_determined_queue_slots_vi; num_queues"""
_LEGACY, _SDMA_0_TO_7, _SDMA_8_TO_15 = range(3)
"""src: enum mes_map_queues_extended_engine_sel_enum"""
_NORMAL = 0
"""src: queue_type__mes_map_queues__normal_compute_vi"""
_ENGINES = {
    (_LEGACY, 0): -1, (_LEGACY, 2): 0, (_LEGACY, 3): 1,
    **{(_SDMA_0_TO_7, engine): engine for engine in range(8)},
    **{(_SDMA_8_TO_15, engine): 8 + engine for engine in range(8)},
}  # fmt: skip
"""The copy engine by extended_engine_sel and engine_sel; -1: compute. pm_map_queues_v9() names the
first two the old way."""
_PAYLOADS = {
    # DIQ, TMZ, debug VMID, the cleaner shader and single_memops are not modelled
    MAP_PROCESS: PacketRule(
        "MAP_PROCESS", 20, 20,
        (fields((15, 0), (31, 25)), 0, 0, 0, 0, 0, 0, 0, 0, 0xFFFF_FFFF, 0, 0, 0, 0,
         0xFFFF_FFFF, 0xFFFF_FFFF, 0xFFFF_FFFF, 0xFFFF_FFFF, 0xFFFF_FFFF, 0xFFFF_FFFF),
    ),
    MAP_QUEUES: PacketRule(
        "MAP_QUEUES", 6, 6,
        (fields((3, 2), (5, 4), (23, 21), (28, 26), (31, 29)), fields((27, 2)), 3, 0, 7, 0),
    ),
    RUN_LIST: PacketRule("RUN_LIST", 3, 3, (3, 0, fields((19, 0), (23, 20), (27, 24)))),
}  # fmt: skip
CHAIN, OFFLOAD_POLLING, VALID = 1 << 20, 1 << 21, 1 << 23
_MAX_PACKETS = 1 << 12


@dataclass(frozen=True, slots=True)
class ListedQueue:
    """MAP_QUEUES."""

    doorbell_dw: int
    kind: int
    engine: int
    """Of an SDMA queue; -1 for compute."""
    mqd_va: int
    wptr_va: int
    """Of the write pointer, in the process's memory."""


@dataclass(slots=True)
class ListedProcess:
    """MAP_PROCESS, and the queues behind it."""

    pasid: int
    root: int
    sh_mem_bases: int
    sh_mem_config: int
    tba_va: int
    tma_va: int
    num_queues: int
    spi_gdbg: int
    """SPI_GDBG_PER_VMID_CNTL."""
    queues: list[ListedQueue] = field(default_factory=list)


class BadList(Exception):
    """A run list that hardware would not take; its text says why."""


def read(words: tuple[int, ...], own_va: int) -> list[ListedProcess]:
    """The processes of a run list that lies at `own_va`. Raises: BadList."""
    found: list[ListedProcess] = []
    at = 0
    for _ in range(_MAX_PACKETS):
        if at == len(words):
            return found
        op, payload = _packet(words, at)
        at += 1 + len(payload)
        if op == MAP_PROCESS:
            found.append(_process(payload))
        elif op == MAP_QUEUES:
            if not found:
                raise BadList("MAP_QUEUES before any MAP_PROCESS")
            found[-1].queues.append(_queue(payload))
            if len(found[-1].queues) > found[-1].num_queues:
                raise BadList(f"process {found[-1].pasid:#x} has more queues than it says")
        else:
            _chain(payload, own_va, len(words), last=at == len(words))
    raise BadList(f"it has more than {_MAX_PACKETS} packets")


def _packet(words: tuple[int, ...], at: int) -> tuple[int, tuple[int, ...]]:
    header = words[at]
    op = bits(header, 15, 8)
    rule = _PAYLOADS.get(op)
    if header >> 30 != 3 or header & 0xFF or rule is None:
        raise BadList(f"dword {at} is {header:#x}, no packet of a run list")
    payload = words[at + 1 : at + 2 + bits(header, 29, 16)]
    if len(payload) != rule.least or bits(header, 29, 16) + 1 != rule.least:
        raise BadList(f"{rule.name} at dword {at} has another length: {header:#x}")
    for number, mask in enumerate(rule.reserved):
        if payload[number] & mask:
            raise BadList(f"{rule.name}: word {number + 1} has {payload[number] & mask:#x}")
    return op, payload


def _process(words: tuple[int, ...]) -> ListedProcess:
    return ListedProcess(
        pasid=bits(words[0], 15, 0), root=join(words[1], words[2]), sh_mem_bases=words[3],
        sh_mem_config=words[4], tba_va=join(words[5], words[6]) << 8,
        tma_va=join(words[7], words[8]) << 8, num_queues=bits(words[12], 31, 22),
        spi_gdbg=words[13],
    )  # fmt: skip


def _queue(words: tuple[int, ...]) -> ListedQueue:
    control = words[0]
    engine = _ENGINES.get((bits(control, 3, 2), bits(control, 28, 26)))
    one = (bits(control, 5, 4), bits(control, 31, 29)) == (_HWS_PLACES, _ONE_QUEUE)
    if engine is None or not one or bits(control, 23, 21) != _NORMAL:
        raise BadList(f"MAP_QUEUES of {control:#x}: a queue of a kind not modelled")
    return ListedQueue(
        doorbell_dw=bits(words[1], 27, 2), engine=engine,
        kind=COMPUTE_QUEUE if engine < 0 else SDMA_QUEUE,
        mqd_va=join(words[2], words[3]), wptr_va=join(words[4], words[5]),
    )  # fmt: skip


def _chain(words: tuple[int, ...], own_va: int, size_dw: int, *, last: bool) -> None:
    """The end of a list with more than runs at once: it begins again. src: is_over_subscription"""
    control = words[2]
    again = (join(words[0], words[1]), bits(control, 19, 0)) == (own_va, size_dw)
    if not (last and again and control & CHAIN and control & VALID):
        raise BadList(f"RUN_LIST of {control:#x} in a list: its end, which chains it to itself")
