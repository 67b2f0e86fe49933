"""KFD ioctls about the process and its devices: version, address spaces, modes, debugging.

Source: include/uapi/linux/kfd_ioctl.h
"""

from __future__ import annotations

from enum import IntFlag

from drivers.base.ioctl import Ioctl, Struct, chars, i32, u32, u64

KFD = "K"
"""The ioctl group: AMDKFD_IOCTL_BASE."""


class RuntimeMode(IntFlag):
    """KFD_RUNTIME_ENABLE_MODE_*_MASK."""

    ENABLE = 1
    TTMP_SAVE = 2


class ProcessFlag(IntFlag):
    """KFD_PROC_FLAG_* (KFD 1.18)."""

    MFMA_HIGH_PRECISION = 1


class GetVersionArgs(Struct, size=8):
    """What the kernel speaks."""

    major_version: int = u32()
    minor_version: int = u32()


class GetClockCountersArgs(Struct, size=40):
    """GPU, CPU and system counters read at the same moment."""

    gpu_clock_counter: int = u64()
    cpu_clock_counter: int = u64()
    system_clock_counter: int = u64()
    system_clock_freq: int = u64()
    gpu_id: int = u32()
    pad: int = u32()


class ProcessDeviceApertures(Struct, size=56):
    """struct kfd_process_device_apertures: where a GPU's special address ranges lie."""

    lds_base: int = u64()
    lds_limit: int = u64()
    scratch_base: int = u64()
    scratch_limit: int = u64()
    gpuvm_base: int = u64()
    gpuvm_limit: int = u64()
    gpu_id: int = u32()
    pad: int = u32()


class GetProcessAperturesArgs(Struct, size=400):
    """The old call: seven ProcessDeviceApertures in line."""

    process_apertures: bytes = chars(392)
    num_of_nodes: int = u32()
    pad: int = u32()


class GetProcessAperturesNewArgs(Struct, size=16):
    """Room for `num_of_nodes` ProcessDeviceApertures at the pointer, then how many there are."""

    kfd_process_device_apertures_ptr: int = u64()
    num_of_nodes: int = u32()
    pad: int = u32()


class DbgRegisterArgs(Struct, size=8):
    """Deprecated; the kernel answers EPERM."""

    gpu_id: int = u32()
    pad: int = u32()


class DbgUnregisterArgs(Struct, size=8):
    """Deprecated; the kernel answers EPERM."""

    gpu_id: int = u32()
    pad: int = u32()


class DbgAddressWatchArgs(Struct, size=16):
    """Deprecated; the kernel answers EPERM."""

    content_ptr: int = u64()
    gpu_id: int = u32()
    buf_size_in_bytes: int = u32()


class DbgWaveControlArgs(Struct, size=16):
    """Deprecated; the kernel answers EPERM."""

    content_ptr: int = u64()
    gpu_id: int = u32()
    buf_size_in_bytes: int = u32()


class GetTileConfigArgs(Struct, size=40):
    """Tiling tables of images; counts are room on the way in and entries on the way out."""

    tile_config_ptr: int = u64()
    macro_tile_config_ptr: int = u64()
    num_tile_configs: int = u32()
    num_macro_tile_configs: int = u32()
    gpu_id: int = u32()
    gb_addr_config: int = u32()
    num_banks: int = u32()
    num_ranks: int = u32()


class SetTrapHandlerArgs(Struct, size=24):
    """Second-level trap handler: its code and the memory it is given."""

    tba_addr: int = u64()
    tma_addr: int = u64()
    gpu_id: int = u32()
    pad: int = u32()


class AcquireVmArgs(Struct, size=8):
    """Take the address space of an open render node for compute on `gpu_id`."""

    drm_fd: int = u32()
    gpu_id: int = u32()


class SmiEventsArgs(Struct, size=8):
    """A file descriptor from which system events are read as lines."""

    gpuid: int = u32()
    anon_fd: int = u32()


class SetXnackModeArgs(Struct, size=4):
    """Recoverable page faults: 0 off, 1 on, -1 asks; the answer is the mode."""

    xnack_enabled: int = i32()


class CriuArgs(Struct, size=56):
    """Checkpoint and restore of a whole process."""

    devices: int = u64()
    bos: int = u64()
    priv_data: int = u64()
    priv_data_size: int = u64()
    num_devices: int = u32()
    num_bos: int = u32()
    num_objects: int = u32()
    pid: int = u32()
    op: int = u32()


class RuntimeEnableArgs(Struct, size=16):
    """Register a runtime with the kernel, once and before the first queue."""

    r_debug: int = u64()
    mode_mask: int = u32()
    capabilities_mask: int = u32()


class DbgTrapArgs(Struct, size=32):
    """A debugger's request; `arguments` is the union of its operations' structs."""

    pid: int = u32()
    op: int = u32()
    arguments: bytes = chars(24)


GET_VERSION = Ioctl("AMDKFD_IOC_GET_VERSION", "R", KFD, 0x01, GetVersionArgs)
GET_CLOCK_COUNTERS = Ioctl("AMDKFD_IOC_GET_CLOCK_COUNTERS", "WR", KFD, 0x05, GetClockCountersArgs)
GET_PROCESS_APERTURES = Ioctl(
    "AMDKFD_IOC_GET_PROCESS_APERTURES", "R", KFD, 0x06, GetProcessAperturesArgs
)
DBG_REGISTER = Ioctl("AMDKFD_IOC_DBG_REGISTER_DEPRECATED", "W", KFD, 0x0D, DbgRegisterArgs)
DBG_UNREGISTER = Ioctl("AMDKFD_IOC_DBG_UNREGISTER_DEPRECATED", "W", KFD, 0x0E, DbgUnregisterArgs)
DBG_ADDRESS_WATCH = Ioctl(
    "AMDKFD_IOC_DBG_ADDRESS_WATCH_DEPRECATED", "W", KFD, 0x0F, DbgAddressWatchArgs
)
DBG_WAVE_CONTROL = Ioctl(
    "AMDKFD_IOC_DBG_WAVE_CONTROL_DEPRECATED", "W", KFD, 0x10, DbgWaveControlArgs
)
GET_TILE_CONFIG = Ioctl("AMDKFD_IOC_GET_TILE_CONFIG", "WR", KFD, 0x12, GetTileConfigArgs)
SET_TRAP_HANDLER = Ioctl("AMDKFD_IOC_SET_TRAP_HANDLER", "W", KFD, 0x13, SetTrapHandlerArgs)
GET_PROCESS_APERTURES_NEW = Ioctl(
    "AMDKFD_IOC_GET_PROCESS_APERTURES_NEW", "WR", KFD, 0x14, GetProcessAperturesNewArgs
)
ACQUIRE_VM = Ioctl("AMDKFD_IOC_ACQUIRE_VM", "W", KFD, 0x15, AcquireVmArgs)
SMI_EVENTS = Ioctl("AMDKFD_IOC_SMI_EVENTS", "WR", KFD, 0x1F, SmiEventsArgs)
SET_XNACK_MODE = Ioctl("AMDKFD_IOC_SET_XNACK_MODE", "WR", KFD, 0x21, SetXnackModeArgs)
CRIU_OP = Ioctl("AMDKFD_IOC_CRIU_OP", "WR", KFD, 0x22, CriuArgs)
RUNTIME_ENABLE = Ioctl("AMDKFD_IOC_RUNTIME_ENABLE", "WR", KFD, 0x25, RuntimeEnableArgs)
DBG_TRAP = Ioctl("AMDKFD_IOC_DBG_TRAP", "WR", KFD, 0x26, DbgTrapArgs)
