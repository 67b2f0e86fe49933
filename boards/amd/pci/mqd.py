"""Memory queue descriptors: where a scheduler finds what it loads into a queue's registers."""

from __future__ import annotations

from dataclasses import dataclass

from boards.amd.cp.engine_types import QueueSpec
from boards.amd.pci.grbm import Queue
from boards.amd.pci.register_file import Block

MQD_BYTES = 2048
_FIRST_DW = 0x80
"""Of a compute MQD, what CP_MQD_BASE_ADDR holds. src: v11_structs.h cp_mqd_base_addr_lo"""
_NOT_LOADED = ("CP_HQD_ACTIVE", "CP_HQD_DEQUEUE_REQUEST")
# src: v11_structs.h struct v11_gfx_mqd, dwords: cp_gfx_hqd_base, _rptr_addr, cp_rb_wptr_poll_addr,
# cp_rb_doorbell_control, cp_gfx_hqd_cntl, cp_gfx_hqd_wptr
_GFX_BASE, _GFX_RPTR, _GFX_WPTR_POLL, _GFX_DOORBELL, _GFX_CNTL, _GFX_WPTR = (
    136, 139, 141, 143, 145, 149,
)  # fmt: skip


def words_of(data: bytes) -> tuple[int, ...]:
    """An MQD's dwords."""
    return tuple(int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4))


def load_compute(block: Block, key: Queue, words: tuple[int, ...], vmid: int | None) -> None:
    """Copy the HQD part of an MQD to a queue's registers; its VMID is the scheduler's choice.

    src: gfx_v11_0.c gfx_v11_0_kiq_init_register() does so for its own queue. That a scheduler
    enables the doorbell of a process's queue is modelled from the driver's side: KFD's MQD has
    DOORBELL_EN 0 (kfd_mqd_manager_v11.c update_mqd()).
    """
    first = block.address_dw("CP_MQD_BASE_ADDR")
    for name in block.table:
        if not name.startswith(("CP_HQD_", "CP_MQD_")) or name in _NOT_LOADED:
            continue
        at = _FIRST_DW + block.address_dw(name) - first
        if _FIRST_DW <= at < len(words):
            block.put(name, words[at], key)
    if vmid is not None:
        block.put_field("CP_HQD_VMID", "VMID", vmid, key)
        block.put_field("CP_HQD_PQ_DOORBELL_CONTROL", "DOORBELL_EN", 1, key)


def saved(block: Block, read: int) -> list[tuple[int, bytes]]:
    """(dword of a compute MQD, bytes) that hold how far a queue has come, when it is unmapped."""
    first = block.address_dw("CP_MQD_BASE_ADDR")

    def at(name: str) -> int:
        return _FIRST_DW + block.address_dw(name) - first

    return [
        (at("CP_HQD_PQ_RPTR"), (read & 0xFFFF_FFFF).to_bytes(4, "little")),
        (at("CP_HQD_PQ_WPTR_LO"), read.to_bytes(8, "little")),
    ]


@dataclass(frozen=True, slots=True)
class GraphicsMqd:
    """A graphics ring as its MQD says it. src: gfx_v11_0.c gfx_v11_0_gfx_mqd_init()"""

    spec: QueueSpec
    doorbell_dw: int


def graphics(words: tuple[int, ...], queue_id: int) -> GraphicsMqd:
    """Sizes are powers of two, counted as for compute: 8 << RB_BUFSZ bytes."""

    def pair(at: int) -> int:
        return words[at] | words[at + 1] << 32

    spec = QueueSpec(
        queue_id=queue_id, kind="pm4", ring_va=pair(_GFX_BASE) << 8,
        ring_bytes=8 << (words[_GFX_CNTL] & 0x3F), rptr_va=pair(_GFX_RPTR),
        wptr_va=pair(_GFX_WPTR_POLL), start=pair(_GFX_WPTR),
    )  # fmt: skip
    return GraphicsMqd(spec, words[_GFX_DOORBELL] >> 2 & 0x3FF_FFFF)


STRIDE = 226
"""Dword of a compute MQD that says how far behind it the next XCC's is, in bytes.
src: v9_structs.h cp_mqd_stride_size; kfd_mqd_manager_v9.c init_mqd_v9_4_3()"""
# src: v9_structs.h struct v9_sdma_mqd, v11_structs.h struct v11_sdma_mqd, v12_structs.h struct
# v12_sdma_mqd
SDMA_MQD_BYTES = 512
_SDMA_COMMON = {
    "RB_BASE": 1, "RB_BASE_HI": 2, "RB_RPTR": 3, "RB_RPTR_HI": 4, "RB_WPTR": 5, "RB_WPTR_HI": 6,
}  # fmt: skip
SDMA_REGISTERS = {
    9: _SDMA_COMMON | {
        "RB_RPTR_ADDR_HI": 8, "RB_RPTR_ADDR_LO": 9, "DOORBELL_OFFSET": 22,
        "RB_WPTR_POLL_ADDR_HI": 28, "RB_WPTR_POLL_ADDR_LO": 29,
    },
    11: _SDMA_COMMON | {
        "RB_RPTR_ADDR_HI": 7, "RB_RPTR_ADDR_LO": 8, "DOORBELL_OFFSET": 19,
        "RB_WPTR_POLL_ADDR_HI": 26, "RB_WPTR_POLL_ADDR_LO": 27,
    },
    12: _SDMA_COMMON | {
        "RB_RPTR_ADDR_LO": 7, "RB_RPTR_ADDR_HI": 8, "DOORBELL_OFFSET": 17,
        "RB_WPTR_POLL_ADDR_LO": 24, "RB_WPTR_POLL_ADDR_HI": 25,
    },
}  # fmt: skip
"""Dword of each ring register, by the graphics block's major version."""
SDMA_READ_POINTER = 3
SDMA_CONTROL = 0
SDMA_ENGINE, SDMA_QUEUE = 126, 127
"""src: v9_structs.h sdma_engine_id, sdma_queue_id"""
