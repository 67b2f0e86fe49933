"""KFD ioctls about memory: allocate, map to GPUs, share; and how mmap offsets are made.

Source: include/uapi/linux/kfd_ioctl.h
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

from drivers.base.ioctl import Ioctl, Struct, u32, u64

KFD = "K"
"""The ioctl group: AMDKFD_IOCTL_BASE."""

# src: drivers/gpu/drm/amd/amdkfd/kfd_priv.h KFD_MMAP_*
MMAP_TYPE_SHIFT = 62
MMAP_GPU_ID_SHIFT = 46
MMAP_GPU_ID_BITS = 16


class MmapType(IntEnum):
    """What an offset given to mmap(/dev/kfd) means: the two bits at MMAP_TYPE_SHIFT."""

    MMIO = 0
    RESERVED_MEM = 1
    EVENTS = 2
    DOORBELL = 3


class AllocFlag(IntFlag):
    """KFD_IOC_ALLOC_MEM_FLAGS_*: one kind of memory, and what may be done with it."""

    VRAM = 1 << 0
    GTT = 1 << 1
    USERPTR = 1 << 2
    DOORBELL = 1 << 3
    MMIO_REMAP = 1 << 4
    CONTIGUOUS = 1 << 23
    EXT_COHERENT = 1 << 24
    UNCACHED = 1 << 25
    COHERENT = 1 << 26
    AQL_QUEUE_MEM = 1 << 27
    NO_SUBSTITUTE = 1 << 28
    PUBLIC = 1 << 29
    EXECUTABLE = 1 << 30
    WRITABLE = 1 << 31


FLAG_SINCE: dict[AllocFlag, int] = {AllocFlag.EXT_COHERENT: 15, AllocFlag.CONTIGUOUS: 16}
"""The minor version from which a flag can be relied on; those not listed are older than 1.12.

EXT_COHERENT came between 1.14 and 1.15, without a version of its own.
# src: kfd_ioctl.h of Linux 6.1 and 6.12
"""


class CachePolicy(IntEnum):
    """KFD_IOC_CACHE_POLICY_*."""

    COHERENT = 0
    NONCOHERENT = 1


class SvmOp(IntEnum):
    """KFD_IOCTL_SVM_OP_*."""

    SET_ATTR = 0
    GET_ATTR = 1


class GetAvailableMemoryArgs(Struct, size=16):
    """Bytes of VRAM this process could still allocate."""

    available: int = u64()
    gpu_id: int = u32()
    pad: int = u32()


class SetMemoryPolicyArgs(Struct, size=32):
    """Default cache policy; `misc_process_flag` was padding before KFD 1.18."""

    alternate_aperture_base: int = u64()
    alternate_aperture_size: int = u64()
    gpu_id: int = u32()
    default_policy: int = u32()
    alternate_policy: int = u32()
    misc_process_flag: int = u32()


class SetScratchBackingVaArgs(Struct, size=16):
    """Where scratch lies, for chips before gfx9."""

    va_addr: int = u64()
    gpu_id: int = u32()
    pad: int = u32()


class AllocMemoryOfGpuArgs(Struct, size=40):
    """Memory at an address the caller chose. `mmap_offset` is in for USERPTR, out for the rest."""

    va_addr: int = u64()
    size: int = u64()
    handle: int = u64()
    mmap_offset: int = u64()
    gpu_id: int = u32()
    flags: int = u32()


class FreeMemoryOfGpuArgs(Struct, size=8):
    """Give it back; it must be unmapped from every GPU."""

    handle: int = u64()


class MapMemoryToGpuArgs(Struct, size=24):
    """`n_success` says how many of the `n_devices` gpu_ids at the pointer have it mapped."""

    handle: int = u64()
    device_ids_array_ptr: int = u64()
    n_devices: int = u32()
    n_success: int = u32()


class UnmapMemoryFromGpuArgs(Struct, size=24):
    """The same for unmapping."""

    handle: int = u64()
    device_ids_array_ptr: int = u64()
    n_devices: int = u32()
    n_success: int = u32()


class GetDmabufInfoArgs(Struct, size=32):
    """What a dma-buf of another process or device is."""

    size: int = u64()
    metadata_ptr: int = u64()
    metadata_size: int = u32()
    gpu_id: int = u32()
    flags: int = u32()
    dmabuf_fd: int = u32()


class ImportDmabufArgs(Struct, size=24):
    """A dma-buf as memory of `gpu_id`."""

    va_addr: int = u64()
    handle: int = u64()
    gpu_id: int = u32()
    dmabuf_fd: int = u32()


class ExportDmabufArgs(Struct, size=16):
    """Memory as a dma-buf."""

    handle: int = u64()
    flags: int = u32()
    dmabuf_fd: int = u32()


class SvmArgs(Struct, size=24):
    """Attributes of a host address range; `nattr` pairs of u32 (type, value) follow the struct."""

    start_addr: int = u64()
    size: int = u64()
    op: int = u32()
    nattr: int = u32()


SET_MEMORY_POLICY = Ioctl("AMDKFD_IOC_SET_MEMORY_POLICY", "W", KFD, 0x04, SetMemoryPolicyArgs)
SET_SCRATCH_BACKING_VA = Ioctl(
    "AMDKFD_IOC_SET_SCRATCH_BACKING_VA", "WR", KFD, 0x11, SetScratchBackingVaArgs
)
ALLOC_MEMORY_OF_GPU = Ioctl("AMDKFD_IOC_ALLOC_MEMORY_OF_GPU", "WR", KFD, 0x16, AllocMemoryOfGpuArgs)
FREE_MEMORY_OF_GPU = Ioctl("AMDKFD_IOC_FREE_MEMORY_OF_GPU", "W", KFD, 0x17, FreeMemoryOfGpuArgs)
_RESUMES = ("n_success", "n_devices")
MAP_MEMORY_TO_GPU = Ioctl(
    "AMDKFD_IOC_MAP_MEMORY_TO_GPU", "WR", KFD, 0x18, MapMemoryToGpuArgs, resumes=_RESUMES
)
UNMAP_MEMORY_FROM_GPU = Ioctl(
    "AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU",
    "WR",
    KFD,
    0x19,
    UnmapMemoryFromGpuArgs,
    resumes=_RESUMES,
)
GET_DMABUF_INFO = Ioctl("AMDKFD_IOC_GET_DMABUF_INFO", "WR", KFD, 0x1C, GetDmabufInfoArgs)
IMPORT_DMABUF = Ioctl("AMDKFD_IOC_IMPORT_DMABUF", "WR", KFD, 0x1D, ImportDmabufArgs)
SVM = Ioctl("AMDKFD_IOC_SVM", "WR", KFD, 0x20, SvmArgs)
AVAILABLE_MEMORY = Ioctl("AMDKFD_IOC_AVAILABLE_MEMORY", "WR", KFD, 0x23, GetAvailableMemoryArgs)
EXPORT_DMABUF = Ioctl("AMDKFD_IOC_EXPORT_DMABUF", "WR", KFD, 0x24, ExportDmabufArgs)


def mmap_offset(kind: MmapType, gpu_id: int) -> int:
    """The offset for mmap(/dev/kfd) of one GPU's doorbells, events, ... Raises: ValueError."""
    if not 0 <= gpu_id < 1 << MMAP_GPU_ID_BITS:
        raise ValueError(f"gpu_id {gpu_id:#x} does not fit {MMAP_GPU_ID_BITS} bits")
    return kind << MMAP_TYPE_SHIFT | gpu_id << MMAP_GPU_ID_SHIFT
