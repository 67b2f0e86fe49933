"""KFD ioctls about queues: create, change, destroy, masks, saved waves.

Source: include/uapi/linux/kfd_ioctl.h; checks: drivers/gpu/drm/amd/amdkfd/kfd_queue.c
"""

from __future__ import annotations

from enum import IntEnum

from drivers.base.ioctl import Ioctl, Struct, u32, u64

KFD = "K"
"""The ioctl group: AMDKFD_IOCTL_BASE."""

MAX_QUEUE_PERCENTAGE = 100
MAX_QUEUE_PRIORITY = 15
MIN_RING_BYTES = 1024
PM4_TARGET_XCC_SHIFT = 8
"""`queue_percentage` holds the percentage in its low byte and a PM4 queue's XCC in the next one.

# src: kfd_chardev.c set_queue_properties_from_user()
"""
CREATE_QUEUE_OLD_BYTES = 88
"""Size of CREATE_QUEUE's struct before KFD 1.17, without `sdma_engine_id` and `pad`."""
SDMA_ENGINE_MINOR = 17
"""The minor version from which SDMA_BY_ENG_ID and `sdma_engine_id` exist."""


class QueueType(IntEnum):
    """KFD_IOC_QUEUE_TYPE_*. COMPUTE reads PM4, COMPUTE_AQL reads AQL packets."""

    COMPUTE = 0
    SDMA = 1
    COMPUTE_AQL = 2
    SDMA_XGMI = 3
    SDMA_BY_ENG_ID = 4


class CreateQueueArgs(Struct, size=96):
    """A ring in memory becomes a hardware queue.

    Hardware: for compute queues the kernel wants `ctl_stack_size` exactly and at least
    `ctx_save_restore_size` as `cwsr.save_area` says; write and read pointer each in an allocation
    of one page; the ring in an allocation of exactly `ring_size`.
    """

    ring_base_address: int = u64()
    write_pointer_address: int = u64()
    read_pointer_address: int = u64()
    doorbell_offset: int = u64()
    ring_size: int = u32()
    gpu_id: int = u32()
    queue_type: int = u32()
    queue_percentage: int = u32()
    queue_priority: int = u32()
    queue_id: int = u32()
    eop_buffer_address: int = u64()
    eop_buffer_size: int = u64()
    ctx_save_restore_address: int = u64()
    ctx_save_restore_size: int = u32()
    ctl_stack_size: int = u32()
    sdma_engine_id: int = u32()
    pad: int = u32()


class DestroyQueueArgs(Struct, size=8):
    """Unmap the queue and forget it."""

    queue_id: int = u32()
    pad: int = u32()


class UpdateQueueArgs(Struct, size=24):
    """Another ring, percentage or priority; percentage 0 unmaps the queue."""

    ring_base_address: int = u64()
    queue_id: int = u32()
    ring_size: int = u32()
    queue_percentage: int = u32()
    queue_priority: int = u32()


class SetCuMaskArgs(Struct, size=16):
    """Which compute units a queue may use: `num_cu_mask` bits, a multiple of 32."""

    queue_id: int = u32()
    num_cu_mask: int = u32()
    cu_mask_ptr: int = u64()


class GetQueueWaveStateArgs(Struct, size=24):
    """Copy the control stack of a queue whose waves were saved."""

    ctl_stack_address: int = u64()
    ctl_stack_used_size: int = u32()
    save_area_used_size: int = u32()
    queue_id: int = u32()
    pad: int = u32()


class AllocQueueGwsArgs(Struct, size=16):
    """Global wave sync slots for a queue."""

    queue_id: int = u32()
    num_gws: int = u32()
    first_gws: int = u32()
    pad: int = u32()


class ContextSaveAreaHeader(Struct, size=40):
    """struct kfd_context_save_area_header, at the start of every XCC's save area (KFD 1.13).

    Queue exceptions are reported through `err_payload_addr` and `err_event_id`.
    """

    control_stack_offset: int = u32()
    control_stack_size: int = u32()
    wave_state_offset: int = u32()
    wave_state_size: int = u32()
    debug_offset: int = u32()
    debug_size: int = u32()
    err_payload_addr: int = u64()
    err_event_id: int = u32()
    reserved1: int = u32()


CREATE_QUEUE = Ioctl("AMDKFD_IOC_CREATE_QUEUE", "WR", KFD, 0x02, CreateQueueArgs)
DESTROY_QUEUE = Ioctl("AMDKFD_IOC_DESTROY_QUEUE", "WR", KFD, 0x03, DestroyQueueArgs)
UPDATE_QUEUE = Ioctl("AMDKFD_IOC_UPDATE_QUEUE", "W", KFD, 0x07, UpdateQueueArgs)
SET_CU_MASK = Ioctl("AMDKFD_IOC_SET_CU_MASK", "W", KFD, 0x1A, SetCuMaskArgs)
GET_QUEUE_WAVE_STATE = Ioctl(
    "AMDKFD_IOC_GET_QUEUE_WAVE_STATE", "WR", KFD, 0x1B, GetQueueWaveStateArgs
)
ALLOC_QUEUE_GWS = Ioctl("AMDKFD_IOC_ALLOC_QUEUE_GWS", "WR", KFD, 0x1E, AllocQueueGwsArgs)
