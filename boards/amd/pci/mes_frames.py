"""Frames of the scheduler (MES): which there are, and where their members lie.

src: mes_v11_api_def.h, mes_v12_api_def.h; dwords as gcc 14 lays the unions out (MES 11's are packed
to 4 bytes, MES 12's are not).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FRAME_DW = 64
"""src: API_FRAME_SIZE_IN_DWORDS"""
SCHEDULER = 1
"""src: MES_API_TYPE_SCHEDULER"""
# src: enum MES_SCH_API_OPCODE
SET_HW_RSRC, SET_SCHEDULING_CONFIG, ADD_QUEUE, REMOVE_QUEUE = 0, 1, 2, 3
SUSPEND, RESUME, RESET, QUERY_STATUS, MISC, SET_HW_RSRC_1 = 6, 7, 8, 11, 14, 19
# src: enum MESAPI_MISC_OPCODE, enum WRM_OPERATION, enum MES_QUEUE_TYPE
WRITE_REG, INV_GART, READ_REG, WAIT_REG_MEM, SET_SHADER_DEBUGGER, CHANGE_CONFIG = 0, 1, 3, 4, 5, 8
WRITE_THEN_WAIT = 1
GFX_QUEUE, COMPUTE_QUEUE, SDMA_QUEUE, SCHEDULER_QUEUE = 0, 1, 2, 3
KFD_PROCESS, TRAP_ENABLED, MAP_LEGACY, UNMAP_LEGACY = 1 << 9, 1 << 10, 1 << 13, 1 << 3
"""is_kfd_process, trap_en and map_legacy_kq of ADD_QUEUE's flags; unmap_legacy_queue of
REMOVE_QUEUE's."""


@dataclass(frozen=True, slots=True)
class Members:
    """Dword of each member that the board reads."""

    status: Mapping[int, int]
    """api_status, by opcode: where the completion fence's address and value are."""
    mqd: int
    wptr: int
    queue_type: int
    context_control: int
    """vm_context_cntl; the flags are behind it."""
    pipe: int
    read_buffer: int
    """Of READ_REG, counted from the operation's first dword."""
    remove_flags: int
    process_id: int = 1
    root: int = 2
    doorbell: int = 18
    doorbell_of_removal: int = 1
    operation: int = 1
    data: int = 6
    """Of MISC."""
    suspend_fence: int = 4
    tma_after_status: int = 4
    """tma_addr of ADD_QUEUE, behind MES_API_STATUS."""


MEMBERS = {
    11: Members(
        status={
            SET_HW_RSRC: 50, SET_SCHEDULING_CONFIG: 32, ADD_QUEUE: 37, REMOVE_QUEUE: 5, SUSPEND: 7,
            RESUME: 4, RESET: 24, QUERY_STATUS: 2, MISC: 2, SET_HW_RSRC_1: 1,
        },
        mqd=19, wptr=21, queue_type=27, context_control=35, pipe=48, read_buffer=1,
        remove_flags=4,
    ),
    12: Members(
        status={
            SET_HW_RSRC: 50, SET_SCHEDULING_CONFIG: 34, ADD_QUEUE: 38, REMOVE_QUEUE: 6, SUSPEND: 8,
            RESUME: 4, RESET: 28, QUERY_STATUS: 2, MISC: 2, SET_HW_RSRC_1: 2,
        },
        mqd=20, wptr=22, queue_type=28, context_control=36, pipe=50, read_buffer=2,
        remove_flags=4,
    ),
}  # fmt: skip
"""By the graphics block's major version."""
