"""Classes of RM objects, and the structs that they are allocated with.

# src: src/common/sdk/nvidia/inc/{nvos.h, alloc/alloc_channel.h, class/cl*.h}
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

from drivers.base.ioctl import Struct, i32, u8, u16, u32, u64

SUBDEVICES: Final = 8
"""NV_MAX_SUBDEVICES: entries of arrays that are indexed by subdevice; only the first is used."""


class RmClass(IntEnum):
    """Classes that are the same on every chip; `queues/nv/generations.py` has those of a chip."""

    NV01_ROOT_CLIENT = 0x0041
    NV01_DEVICE_0 = 0x0080
    NV20_SUBDEVICE_0 = 0x2080
    NV01_MEMORY_SYSTEM = 0x003E
    NV01_MEMORY_LOCAL_USER = 0x0040
    NV01_MEMORY_SYSTEM_OS_DESCRIPTOR = 0x0071
    FERMI_VASPACE_A = 0x90F1
    FERMI_CONTEXT_SHARE_A = 0x9067
    KEPLER_CHANNEL_GROUP_A = 0xA06C
    GT200_DEBUGGER = 0x83DE
    NV_CONFIDENTIAL_COMPUTE = 0xCB33


class AllocFlag(IntFlag):
    """NVOS32_ALLOC_FLAGS_*."""

    IGNORE_BANK_PLACEMENT = 0x1
    ALIGNMENT_FORCE = 0x100
    MEMORY_HANDLE_PROVIDED = 0x4000
    MAP_NOT_REQUIRED = 0x8000
    PERSISTENT_VIDMEM = 0x10000


class Attr(IntFlag):
    """NVOS32_ATTR_*, shifted to their places."""

    PAGE_SIZE_4KB = 1 << 23
    PAGE_SIZE_HUGE = 3 << 23
    LOCATION_PCI = 1 << 25
    PHYSICALITY_NONCONTIGUOUS = 1 << 27
    PHYSICALITY_CONTIGUOUS = 2 << 27
    COHERENCY_CACHED = 1 << 29


class Attr2(IntFlag):
    """NVOS32_ATTR2_*, shifted to their places."""

    ZBC_PREFER_NO_ZBC = 1
    GPU_CACHEABLE_YES = 1 << 2
    GPU_CACHEABLE_NO = 2 << 2
    PAGE_SIZE_HUGE_2MB = 1 << 20


class MemoryType(IntEnum):
    """NVOS32_TYPE_*."""

    IMAGE = 0
    NOTIFIER = 13


class VaSpaceFlag(IntFlag):
    """NV_VASPACE_ALLOCATION_FLAGS_*."""

    IS_EXTERNALLY_OWNED = 1 << 3
    ENABLE_PAGE_FAULTING = 1 << 6


class OsDescriptorFlag(IntFlag):
    """NVOS02_FLAGS_*, shifted to their places."""

    PHYSICALITY_NONCONTIGUOUS = 1 << 4
    COHERENCY_CACHED = 1 << 12
    MAPPING_NO_MAP = 1 << 30


SUBCONTEXT_ASYNC: Final = 1
"""NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_ASYNC: the subcontext for compute."""
ENGINE_GRAPHICS: Final = 1
"""NV2080_ENGINE_TYPE_GRAPHICS."""
ENGINE_COPY0: Final = 9
"""NV2080_ENGINE_TYPE_COPY0. # src: class/cl2080_notification.h"""
COPY_ENGINES: Final = 10
"""Those whose engine types follow COPY0 directly."""
COPY_BY_ENGINE_TYPE: Final = 1
"""NVB0B5_ALLOCATION_PARAMETERS_VERSION_1."""
CACHING_WRITECOMBINED: Final = 2 << 23
"""NVOS33_FLAGS_CACHING_TYPE_WRITECOMBINED."""
CACHING_DEFAULT: Final = 6 << 23
"""NVOS33_FLAGS_CACHING_TYPE_DEFAULT: as the memory itself."""
FORMAT_PITCH: Final = 6
"""NVOS32_ATTR format word that clients known to run give."""


class DeviceAlloc(Struct, size=56):
    """NV0080_ALLOC_PARAMETERS."""

    device_id: int = u32()
    h_client_share: int = u32()
    h_target_client: int = u32()
    h_target_device: int = u32()
    flags: int = u32()
    pad: int = u32()
    va_space_size: int = u64()
    va_start_internal: int = u64()
    va_limit_internal: int = u64()
    va_mode: int = u32()
    pad2: int = u32()


class SubdeviceAlloc(Struct, size=4):
    """NV2080_ALLOC_PARAMETERS."""

    sub_device_id: int = u32()


class MemoryAlloc(Struct, size=120):
    """NV_MEMORY_ALLOCATION_PARAMS, before 550."""

    owner: int = u32()
    type: int = u32()
    flags: int = u32()
    width: int = u32()
    height: int = u32()
    pitch: int = i32()
    attr: int = u32()
    attr2: int = u32()
    format: int = u32()
    compr_covg: int = u32()
    zcull_covg: int = u32()
    pad: int = u32()
    range_lo: int = u64()
    range_hi: int = u64()
    size: int = u64()
    alignment: int = u64()
    offset: int = u64()
    limit: int = u64()
    address: int = u64()
    ctag_offset: int = u32()
    h_va_space: int = u32()
    internalflags: int = u32()
    tag: int = u32()


class MemoryAlloc550(Struct, size=128):
    """NV_MEMORY_ALLOCATION_PARAMS since 550."""

    owner: int = u32()
    type: int = u32()
    flags: int = u32()
    width: int = u32()
    height: int = u32()
    pitch: int = i32()
    attr: int = u32()
    attr2: int = u32()
    format: int = u32()
    compr_covg: int = u32()
    zcull_covg: int = u32()
    pad: int = u32()
    range_lo: int = u64()
    range_hi: int = u64()
    size: int = u64()
    alignment: int = u64()
    offset: int = u64()
    limit: int = u64()
    address: int = u64()
    ctag_offset: int = u32()
    h_va_space: int = u32()
    internalflags: int = u32()
    tag: int = u32()
    numa_node: int = i32()
    pad2: int = u32()


class VaSpaceAlloc(Struct, size=48):
    """NV_VASPACE_ALLOCATION_PARAMETERS, before 580."""

    index: int = u32()
    flags: int = u32()
    va_size: int = u64()
    va_start_internal: int = u64()
    va_limit_internal: int = u64()
    big_page_size: int = u32()
    pad: int = u32()
    va_base: int = u64()


class VaSpaceAlloc580(Struct, size=56):
    """The same since 580."""

    index: int = u32()
    flags: int = u32()
    va_size: int = u64()
    va_start_internal: int = u64()
    va_limit_internal: int = u64()
    big_page_size: int = u32()
    pad: int = u32()
    va_base: int = u64()
    pasid: int = u32()
    pad2: int = u32()


class ChannelGroupAlloc(Struct, size=20):
    """NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS."""

    h_object_error: int = u32()
    h_object_ecc_error: int = u32()
    h_va_space: int = u32()
    engine_type: int = u32()
    b_is_calling_context_vgpu_plugin: int = u8()
    pad: tuple[int, ...] = u8(3)


class ContextShareAlloc(Struct, size=12):
    """NV_CTXSHARE_ALLOCATION_PARAMETERS."""

    h_va_space: int = u32()
    flags: int = u32()
    subctx_id: int = u32()


class CopyAlloc(Struct, size=8):
    """NVB0B5_ALLOCATION_PARAMETERS."""

    version: int = u32()
    engine_type: int = u32()


class UsermodeAlloc(Struct, size=2):
    """NV_HOPPER_USERMODE_A_PARAMS."""

    b_bar1_mapping: int = u8()
    b_priv: int = u8()


class ConfidentialAlloc(Struct, size=4):
    """NV_CONFIDENTIAL_COMPUTE_ALLOC_PARAMS."""

    h_client: int = u32()


class DebuggerAlloc(Struct, size=12):
    """NV83DE_ALLOC_PARAMETERS."""

    h_debugger_client_obsolete: int = u32()
    h_app_client: int = u32()
    h_class3d_object: int = u32()


_CHANNEL_TAIL: Final = 360 - 132
"""What RM alone fills, up to the end of the struct in 550."""


class ChannelAlloc(Struct, size=360):
    """NV_CHANNEL_ALLOC_PARAMS in 550. What follows `engine_type` is RM's own."""

    h_object_error: int = u32()
    h_object_buffer: int = u32()
    gp_fifo_offset: int = u64()
    gp_fifo_entries: int = u32()
    flags: int = u32()
    h_context_share: int = u32()
    h_va_space: int = u32()
    h_userd_memory: tuple[int, ...] = u32(SUBDEVICES)
    userd_offset: tuple[int, ...] = u64(SUBDEVICES)
    engine_type: int = u32()
    reserved: tuple[int, ...] = u8(_CHANNEL_TAIL)


class ChannelAlloc570(Struct, size=368):
    """The same since 570."""

    h_object_error: int = u32()
    h_object_buffer: int = u32()
    gp_fifo_offset: int = u64()
    gp_fifo_entries: int = u32()
    flags: int = u32()
    h_context_share: int = u32()
    h_va_space: int = u32()
    h_userd_memory: tuple[int, ...] = u32(SUBDEVICES)
    userd_offset: tuple[int, ...] = u64(SUBDEVICES)
    engine_type: int = u32()
    reserved: tuple[int, ...] = u8(_CHANNEL_TAIL + 8)


class ChannelAlloc610(Struct, size=376):
    """The same since 610."""

    h_object_error: int = u32()
    h_object_buffer: int = u32()
    gp_fifo_offset: int = u64()
    gp_fifo_entries: int = u32()
    flags: int = u32()
    h_context_share: int = u32()
    h_va_space: int = u32()
    h_userd_memory: tuple[int, ...] = u32(SUBDEVICES)
    userd_offset: tuple[int, ...] = u64(SUBDEVICES)
    engine_type: int = u32()
    reserved: tuple[int, ...] = u8(_CHANNEL_TAIL + 16)


class Notification(Struct, size=16):
    """NvNotification: what RM writes to the error notifier of a channel. # src: nvgputypes.h"""

    nanoseconds: int = u64()
    info32: int = u32()
    info16: int = u16()
    status: int = u16()
