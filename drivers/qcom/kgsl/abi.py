"""KGSL's ioctls: structs with their sizes, numbers, flags.

# src: msm_kgsl.h, as Mesa 25.0.7 carries it (src/freedreno/vulkan/msm_kgsl.h); tests/abi compares
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

from drivers.base.ioctl import Ioctl, Struct, u32, u64

TYPE: Final = 0x09


class MemFlag(IntFlag):
    """KGSL_MEMFLAGS_*, and the cache mode shifted to its place."""

    GPUREADONLY = 1 << 24
    WRITECOMBINE = 0 << 26
    UNCACHED = 1 << 26
    WRITEBACK = 3 << 26
    USE_CPU_MAP = 1 << 28
    IOCOHERENT = 1 << 31


ALIGN_SHIFT: Final = 16
"""KGSL_MEMALIGN_SHIFT: the alignment as a power of two."""
PAGE_SHIFT: Final = 12
"""Of the GPU's pages. Objects are mapped at their id times a page of the kernel's.
# src: msm-4.9 to 6.x, kgsl.c kgsl_mmap(), get_mmap_entry(): vma->vm_pgoff"""


class ContextFlag(IntFlag):
    """KGSL_CONTEXT_*."""

    SAVE_GMEM = 1
    NO_GMEM_ALLOC = 2
    PREAMBLE = 0x10
    PER_CONTEXT_TS = 0x40
    NO_FAULT_TOLERANCE = 0x200
    PWR_CONSTRAINT = 0x800
    TYPE_CL = 2 << 20
    PREEMPT_FINEGRAIN = 2 << 25
    FAULT_INFO = 1 << 30


PRIORITY_SHIFT: Final = 12
"""KGSL_CONTEXT_PRIORITY_SHIFT; 1 is the highest, 15 the lowest."""
SUBMIT_IB_LIST: Final = 4
"""KGSL_CMDBATCH_SUBMIT_IB_LIST."""
CMDLIST_IB: Final = 1
OBJECT_BYTES: Final = 32
"""A struct kgsl_command_object: offset, gpuaddr, size, flags, id."""
USER_MEM_ADDR: Final = 2
USER_MEM_DMABUF: Final = 3
"""enum kgsl_user_mem_type."""


class Prop(IntEnum):
    """KGSL_PROP_*."""

    DEVICE_INFO = 0x1
    VERSION = 0x8
    GPU_RESET_STAT = 0x9
    PWR_CONSTRAINT = 0x12
    GPU_MODEL = 0x29


class ResetStat(IntEnum):
    """enum kgsl_ctx_reset_stat."""

    NO_ERROR, GUILTY, INNOCENT, UNKNOWN = range(4)


class FaultType(IntEnum):
    """KGSL_FAULT_TYPE_*."""

    NO_FAULT, PAGEFAULT = range(2)


class PageFaultType(IntFlag):
    """KGSL_PAGEFAULT_TYPE_*; 0 is none."""

    READ = 1
    WRITE = 2
    TRANSLATION = 4
    PERMISSION = 8
    EXTERNAL = 0x10
    TRANSACTION_STALLED = 0x20


class CacheOp(IntFlag):
    """KGSL_GPUMEM_CACHE_*."""

    TO_GPU = 1
    FROM_GPU = 2


CACHE_RANGE: Final = 1 << 31
"""KGSL_GPUMEM_CACHE_RANGE, beside a CacheOp: without it KGSL takes no notice of `offset` and
`length`, and does all of the object. With it no bytes are EINVAL, and bytes outside ERANGE.
# src: kgsl.c _kgsl_gpumem_sync_cache(); kgsl_sharedmem.c kgsl_cache_range_op(); msm-3.10 to 6.x"""


LARGEST_PAGE_BYTES: Final = 1 << 14
"""Of kernels with KGSL: Android's have pages of 4 KiB, or of 16."""
CONSTRAINT_PWRLEVEL: Final = 1
PWR_MAX: Final = 1
TIMESTAMP_RETIRED: Final = 2


class DevInfo(Struct, size=40):
    """struct kgsl_devinfo."""

    device_id: int = u32()
    chip_id: int = u32()
    mmu_enabled: int = u32()
    gmem_gpubaseaddr: int = u64()
    gpu_id: int = u32()
    gmem_sizebytes: int = u64()


class Property(Struct, size=24):
    """struct kgsl_device_getproperty."""

    type: int = u32()
    value: int = u64()
    sizebytes: int = u64()


class Constraint(Struct, size=24):
    """struct kgsl_device_constraint."""

    type: int = u32()
    context_id: int = u32()
    data: int = u64()
    nbytes: int = u64()


class WaitTimestamp(Struct, size=12):
    """struct kgsl_device_waittimestamp_ctxtid; the time is in milliseconds."""

    context_id: int = u32()
    timestamp: int = u32()
    timeout: int = u32()


class ReadTimestamp(Struct, size=12):
    """struct kgsl_cmdstream_readtimestamp_ctxtid."""

    context_id: int = u32()
    type: int = u32()
    timestamp: int = u32()


class ContextCreate(Struct, size=8):
    """struct kgsl_drawctxt_create."""

    flags: int = u32()
    drawctxt_id: int = u32()


class ContextDestroy(Struct, size=4):
    """struct kgsl_drawctxt_destroy."""

    drawctxt_id: int = u32()


class ObjectAlloc(Struct, size=48):
    """struct kgsl_gpuobj_alloc."""

    nbytes: int = u64()
    flags: int = u64()
    va_len: int = u64()
    mmapsize: int = u64()
    id: int = u32()
    metadata_len: int = u32()
    metadata: int = u64()


class ObjectFree(Struct, size=32):
    """struct kgsl_gpuobj_free."""

    flags: int = u64()
    priv: int = u64()
    id: int = u32()
    type: int = u32()
    len: int = u32()


class ObjectInfo(Struct, size=48):
    """struct kgsl_gpuobj_info."""

    gpuaddr: int = u64()
    flags: int = u64()
    nbytes: int = u64()
    va_len: int = u64()
    va_addr: int = u64()
    id: int = u32()


class ObjectImport(Struct, size=32):
    """struct kgsl_gpuobj_import."""

    priv: int = u64()
    priv_len: int = u64()
    flags: int = u64()
    type: int = u32()
    id: int = u32()


class ObjectSync(Struct, size=16):
    """struct kgsl_gpuobj_sync."""

    objs: int = u64()
    obj_len: int = u32()
    count: int = u32()


class SyncObject(Struct, size=24):
    """struct kgsl_gpuobj_sync_obj."""

    offset: int = u64()
    length: int = u64()
    id: int = u32()
    op: int = u32()


class GpuCommand(Struct, size=64):
    """struct kgsl_gpu_command."""

    flags: int = u64()
    cmdlist: int = u64()
    cmdsize: int = u32()
    numcmds: int = u32()
    objlist: int = u64()
    objsize: int = u32()
    numobjs: int = u32()
    synclist: int = u64()
    syncsize: int = u32()
    numsyncs: int = u32()
    context_id: int = u32()
    timestamp: int = u32()


class MemoryInfo(Struct, size=72):
    """struct kgsl_gpumem_get_info."""

    gpuaddr: int = u64()
    id: int = u32()
    flags: int = u32()
    nbytes: int = u64()
    mmapsize: int = u64()
    useraddr: int = u64()
    pad: tuple[int, ...] = u64(4)


class FaultReport(Struct, size=24):
    """struct kgsl_fault_report: `faultnents` structs of `faultsize` bytes at `faultlist`."""

    faultlist: int = u64()
    faultnents: int = u32()
    faultsize: int = u32()
    context_id: int = u32()
    padding: int = u32()


class FaultList(Struct, size=24):
    """struct kgsl_fault: `count` reports of `nbytes` each at `fault`; 0: only count them."""

    fault: int = u64()
    type: int = u32()
    count: int = u32()
    nbytes: int = u32()
    padding: int = u32()


class PageFaultReport(Struct, size=32):
    """struct kgsl_pagefault_report."""

    fault_addr: int = u64()
    reserved: tuple[int, ...] = u64(2)
    fault_type: int = u32()


GET_PROPERTY = Ioctl("IOCTL_KGSL_DEVICE_GETPROPERTY", "WR", TYPE, 0x2, Property)
WAIT_TIMESTAMP = Ioctl("IOCTL_KGSL_DEVICE_WAITTIMESTAMP_CTXTID", "W", TYPE, 0x7, WaitTimestamp)
CONTEXT_CREATE = Ioctl("IOCTL_KGSL_DRAWCTXT_CREATE", "WR", TYPE, 0x13, ContextCreate)
CONTEXT_DESTROY = Ioctl("IOCTL_KGSL_DRAWCTXT_DESTROY", "W", TYPE, 0x14, ContextDestroy)
READ_TIMESTAMP = Ioctl("IOCTL_KGSL_CMDSTREAM_READTIMESTAMP_CTXTID", "WR", TYPE, 0x16, ReadTimestamp)
SET_PROPERTY = Ioctl("IOCTL_KGSL_SETPROPERTY", "W", TYPE, 0x32, Property)
MEMORY_INFO = Ioctl("IOCTL_KGSL_GPUMEM_GET_INFO", "WR", TYPE, 0x36, MemoryInfo)
OBJECT_ALLOC = Ioctl("IOCTL_KGSL_GPUOBJ_ALLOC", "WR", TYPE, 0x45, ObjectAlloc)
OBJECT_FREE = Ioctl("IOCTL_KGSL_GPUOBJ_FREE", "W", TYPE, 0x46, ObjectFree)
OBJECT_INFO = Ioctl("IOCTL_KGSL_GPUOBJ_INFO", "WR", TYPE, 0x47, ObjectInfo)
OBJECT_IMPORT = Ioctl("IOCTL_KGSL_GPUOBJ_IMPORT", "WR", TYPE, 0x48, ObjectImport)
OBJECT_SYNC = Ioctl("IOCTL_KGSL_GPUOBJ_SYNC", "W", TYPE, 0x49, ObjectSync)
GPU_COMMAND = Ioctl("IOCTL_KGSL_GPU_COMMAND", "WR", TYPE, 0x4A, GpuCommand)
GET_FAULT_REPORT = Ioctl("IOCTL_KGSL_GET_FAULT_REPORT", "WR", TYPE, 0x5E, FaultReport)
