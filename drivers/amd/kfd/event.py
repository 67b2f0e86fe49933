"""KFD ioctls about events: signals from queues, memory faults, hardware exceptions.

Source: include/uapi/linux/kfd_ioctl.h
"""

from __future__ import annotations

from enum import IntEnum

from drivers.base.ioctl import Ioctl, Struct, chars, u32, u64

KFD = "K"
"""The ioctl group: AMDKFD_IOCTL_BASE."""

SIGNAL_EVENT_LIMIT = 4096
SIGNAL_SLOT_BYTES = 8
"""Bytes of one event's mailbox in the event page. # src: kfd_events.c page_slots()"""
EVENT_PAGE_BYTES = SIGNAL_EVENT_LIMIT * SIGNAL_SLOT_BYTES


class EventType(IntEnum):
    """KFD_IOC_EVENT_*."""

    SIGNAL = 0
    NODECHANGE = 1
    DEVICESTATECHANGE = 2
    HW_EXCEPTION = 3
    SYSTEM_EVENT = 4
    DEBUG_EVENT = 5
    PROFILE_EVENT = 6
    QUEUE_EVENT = 7
    MEMORY = 8


class WaitResult(IntEnum):
    """KFD_IOC_WAIT_RESULT_*."""

    COMPLETE = 0
    TIMEOUT = 1
    FAIL = 2


class ResetType(IntEnum):
    """KFD_HW_EXCEPTION_*: how much was reset."""

    WHOLE_GPU_RESET = 0
    PER_ENGINE_RESET = 1


class ResetCause(IntEnum):
    """KFD_HW_EXCEPTION_*: why."""

    GPU_HANG = 0
    ECC = 1


class MemoryErrorType(IntEnum):
    """KFD_MEM_ERR_*: `error_type` of a memory exception."""

    NO_RAS = 0
    SRAM_ECC = 1
    POISON_CONSUMED = 2
    GPU_HANG = 3


class CreateEventArgs(Struct, size=32):
    """A new event. The first one names the event page by its memory handle in `event_page_offset`.

    Hardware: a queue writes `event_trigger_data` to mailbox `event_slot_index` and interrupts.
    """

    event_page_offset: int = u64()
    event_trigger_data: int = u32()
    event_type: int = u32()
    auto_reset: int = u32()
    node_id: int = u32()
    event_id: int = u32()
    event_slot_index: int = u32()


class DestroyEventArgs(Struct, size=8):
    """Forget it."""

    event_id: int = u32()
    pad: int = u32()


class SetEventArgs(Struct, size=8):
    """Signal it from the host."""

    event_id: int = u32()
    pad: int = u32()


class ResetEventArgs(Struct, size=8):
    """Make it unsignalled again."""

    event_id: int = u32()
    pad: int = u32()


class EventData(Struct, size=48):
    """struct kfd_event_data: one entry of WAIT_EVENTS; `data` is read by the event's type."""

    data: bytes = chars(32)
    kfd_event_data_ext: int = u64()
    event_id: int = u32()
    pad: int = u32()


class MemoryExceptionData(Struct, size=32):
    """struct kfd_hsa_memory_exception_data: EventData.data of a MEMORY event."""

    not_present: int = u32()
    read_only: int = u32()
    no_execute: int = u32()
    imprecise: int = u32()
    va: int = u64()
    gpu_id: int = u32()
    error_type: int = u32()


class HwExceptionData(Struct, size=16):
    """struct kfd_hsa_hw_exception_data: the first bytes of EventData.data of a HW_EXCEPTION."""

    reset_type: int = u32()
    reset_cause: int = u32()
    memory_lost: int = u32()
    gpu_id: int = u32()


class SignalEventData(Struct, size=8):
    """struct kfd_hsa_signal_event_data: the first bytes of EventData.data of a SIGNAL (1.14)."""

    last_event_age: int = u64()


class WaitEventsArgs(Struct, size=24):
    """Sleep until one or all of `num_events` entries of EventData happened, or `timeout` ms."""

    events_ptr: int = u64()
    num_events: int = u32()
    wait_for_all: int = u32()
    timeout: int = u32()
    wait_result: int = u32()


CREATE_EVENT = Ioctl("AMDKFD_IOC_CREATE_EVENT", "WR", KFD, 0x08, CreateEventArgs)
DESTROY_EVENT = Ioctl("AMDKFD_IOC_DESTROY_EVENT", "W", KFD, 0x09, DestroyEventArgs)
SET_EVENT = Ioctl("AMDKFD_IOC_SET_EVENT", "W", KFD, 0x0A, SetEventArgs)
RESET_EVENT = Ioctl("AMDKFD_IOC_RESET_EVENT", "W", KFD, 0x0B, ResetEventArgs)
WAIT_EVENTS = Ioctl(
    "AMDKFD_IOC_WAIT_EVENTS", "WR", KFD, 0x0C, WaitEventsArgs, counts_down="timeout"
)  # src: kfd_events.c kfd_wait_on_events(): the time left is returned when a signal interrupts
