"""The ioctls of /dev/nvidia-uvm, which maps memory into the address space of a GPU.

Their requests are plain numbers, without size and direction; errors are in `rm_status`.
# src: kernel-open/nvidia-uvm/{uvm_ioctl.h, uvm_linux_ioctl.h, uvm_types.h}
"""

from __future__ import annotations

from typing import Final

from drivers.base.ioctl import Ioctl, Struct, chars, i32, u8, u32, u64

UUID_BYTES: Final = 16
MAX_GPUS, MAX_GPUS_550 = 32, 256
"""Entries of UVM_MAP_EXTERNAL_ALLOCATION's list, and since 550.54.14: 8 partitions of each."""
ATTRIBUTES_BYTES: Final = 36
DISABLE_HMM: Final = 1
"""UVM_INIT_FLAGS_DISABLE_HMM: the GPU does not reach memory of the process that was not wrapped.
# src: uvm_types.h, and uvm_hmm.c uvm_hmm_is_enabled(): the same from 535.43.28 to 595.45.04"""
READ_WRITE_ATOMIC: Final = 1
"""UvmGpuMappingTypeReadWriteAtomic."""
READ_ONLY: Final = 3
"""UvmGpuMappingTypeReadOnly."""


class Initialize(Struct, size=16):
    """UVM_INITIALIZE_PARAMS."""

    flags: int = u64()
    rm_status: int = u32()
    pad: int = u32()


class MmInitialize(Struct, size=8):
    """UVM_MM_INITIALIZE_PARAMS."""

    uvm_fd: int = i32()
    rm_status: int = u32()


class RegisterGpu(Struct, size=40):
    """UVM_REGISTER_GPU_PARAMS."""

    gpu_uuid: bytes = chars(UUID_BYTES)
    numa_enabled: int = u8()
    pad: tuple[int, ...] = u8(3)
    numa_node_id: int = i32()
    rm_ctrl_fd: int = i32()
    h_client: int = u32()
    h_smc_part_ref: int = u32()
    rm_status: int = u32()


class UnregisterGpu(Struct, size=20):
    """UVM_UNREGISTER_GPU_PARAMS."""

    gpu_uuid: bytes = chars(UUID_BYTES)
    rm_status: int = u32()


class RegisterGpuVaSpace(Struct, size=32):
    """UVM_REGISTER_GPU_VASPACE_PARAMS."""

    gpu_uuid: bytes = chars(UUID_BYTES)
    rm_ctrl_fd: int = i32()
    h_client: int = u32()
    h_va_space: int = u32()
    rm_status: int = u32()


class UnregisterGpuVaSpace(Struct, size=20):
    """UVM_UNREGISTER_GPU_VASPACE_PARAMS."""

    gpu_uuid: bytes = chars(UUID_BYTES)
    rm_status: int = u32()


class RegisterChannel(Struct, size=56):
    """UVM_REGISTER_CHANNEL_PARAMS: `base` ... is where the channel's own buffers are mapped."""

    gpu_uuid: bytes = chars(UUID_BYTES)
    rm_ctrl_fd: int = i32()
    h_client: int = u32()
    h_channel: int = u32()
    pad: int = u32()
    base: int = u64()
    length: int = u64()
    rm_status: int = u32()
    pad2: int = u32()


class UnregisterChannel(Struct, size=28):
    """UVM_UNREGISTER_CHANNEL_PARAMS, before 590."""

    gpu_uuid: bytes = chars(UUID_BYTES)
    h_client: int = u32()
    h_channel: int = u32()
    rm_status: int = u32()


class UnregisterChannel590(Struct, size=12):
    """The same since 590."""

    h_client: int = u32()
    h_channel: int = u32()
    rm_status: int = u32()


class EnablePeerAccess(Struct, size=36):
    """UVM_ENABLE_PEER_ACCESS_PARAMS."""

    gpu_uuid_a: bytes = chars(UUID_BYTES)
    gpu_uuid_b: bytes = chars(UUID_BYTES)
    rm_status: int = u32()


class CreateExternalRange(Struct, size=24):
    """UVM_CREATE_EXTERNAL_RANGE_PARAMS."""

    base: int = u64()
    length: int = u64()
    rm_status: int = u32()
    pad: int = u32()


class MapExternalAllocation(Struct, size=1200):
    """UVM_MAP_EXTERNAL_ALLOCATION_PARAMS, before 550.54.14.

    The first of `per_gpu_attributes` is spelled out.
    """

    base: int = u64()
    length: int = u64()
    offset: int = u64()
    gpu_uuid: bytes = chars(UUID_BYTES)
    gpu_mapping_type: int = u32()
    gpu_caching_type: int = u32()
    gpu_format_type: int = u32()
    gpu_element_bits: int = u32()
    gpu_compression_type: int = u32()
    other_gpus: bytes = chars((MAX_GPUS - 1) * ATTRIBUTES_BYTES)
    gpu_attributes_count: int = u64()
    rm_ctrl_fd: int = i32()
    h_client: int = u32()
    h_memory: int = u32()
    rm_status: int = u32()


class MapExternalAllocation550(Struct, size=9264):
    """UVM_MAP_EXTERNAL_ALLOCATION_PARAMS since 550.54.14."""

    base: int = u64()
    length: int = u64()
    offset: int = u64()
    gpu_uuid: bytes = chars(UUID_BYTES)
    gpu_mapping_type: int = u32()
    gpu_caching_type: int = u32()
    gpu_format_type: int = u32()
    gpu_element_bits: int = u32()
    gpu_compression_type: int = u32()
    other_gpus: bytes = chars((MAX_GPUS_550 - 1) * ATTRIBUTES_BYTES)
    gpu_attributes_count: int = u64()
    rm_ctrl_fd: int = i32()
    h_client: int = u32()
    h_memory: int = u32()
    rm_status: int = u32()


class UnmapExternal(Struct, size=40):
    """UVM_UNMAP_EXTERNAL_PARAMS."""

    base: int = u64()
    length: int = u64()
    gpu_uuid: bytes = chars(UUID_BYTES)
    rm_status: int = u32()
    pad: int = u32()


class UvmFree(Struct, size=24):
    """UVM_FREE_PARAMS, before 590."""

    base: int = u64()
    length: int = u64()
    rm_status: int = u32()
    pad: int = u32()


class UvmFree590(Struct, size=16):
    """The same since 590: ranges are known by their base."""

    base: int = u64()
    rm_status: int = u32()
    pad: int = u32()


class UvmIoctl(Ioctl[Struct]):
    """A request that is a plain number."""

    __slots__ = ()

    def __init__(self, name: str, number: int, args: type[Struct]) -> None:
        self.name, self.request, self.args = name, number, args
        self.resumes = self.counts_down = None


INITIALIZE = UvmIoctl("UVM_INITIALIZE", 0x30000001, Initialize)
MM_INITIALIZE = UvmIoctl("UVM_MM_INITIALIZE", 75, MmInitialize)
REGISTER_GPU = UvmIoctl("UVM_REGISTER_GPU", 37, RegisterGpu)
UNREGISTER_GPU = UvmIoctl("UVM_UNREGISTER_GPU", 38, UnregisterGpu)
REGISTER_GPU_VASPACE = UvmIoctl("UVM_REGISTER_GPU_VASPACE", 25, RegisterGpuVaSpace)
UNREGISTER_GPU_VASPACE = UvmIoctl("UVM_UNREGISTER_GPU_VASPACE", 26, UnregisterGpuVaSpace)
REGISTER_CHANNEL = UvmIoctl("UVM_REGISTER_CHANNEL", 27, RegisterChannel)
UNREGISTER_CHANNEL = UvmIoctl("UVM_UNREGISTER_CHANNEL", 28, UnregisterChannel)
UNREGISTER_CHANNEL_590 = UvmIoctl("UVM_UNREGISTER_CHANNEL", 28, UnregisterChannel590)
ENABLE_PEER_ACCESS = UvmIoctl("UVM_ENABLE_PEER_ACCESS", 29, EnablePeerAccess)
MAP_EXTERNAL_ALLOCATION = UvmIoctl("UVM_MAP_EXTERNAL_ALLOCATION", 33, MapExternalAllocation)
MAP_EXTERNAL_ALLOCATION_550 = UvmIoctl("UVM_MAP_EXTERNAL_ALLOCATION", 33, MapExternalAllocation550)
UNMAP_EXTERNAL = UvmIoctl("UVM_UNMAP_EXTERNAL", 66, UnmapExternal)
FREE = UvmIoctl("UVM_FREE", 34, UvmFree)
FREE_590 = UvmIoctl("UVM_FREE", 34, UvmFree590)
CREATE_EXTERNAL_RANGE = UvmIoctl("UVM_CREATE_EXTERNAL_RANGE", 73, CreateExternalRange)
