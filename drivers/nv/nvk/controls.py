"""RM controls: numbers, and the structs that they take. `Control` pairs both.

A list that has another size in each release is declared for each; `drivers/nv/nvk/abi.py` chooses.
# src: src/common/sdk/nvidia/inc/ctrl/ctrl*.h
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from drivers.base.ioctl import Struct, chars, i32, u8, u32, u64

GID_BYTES: Final = 256
GID_BINARY: Final = 2
"""NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY."""
MAX_SMS: Final = 100
"""NV83DE_CTRL_DEBUG_MAX_SMS_PER_CALL."""
SM_STATE_BYTES: Final = 48
MAX_MMU_FAULTS: Final = 4


class GrInfo(IntEnum):
    """NV2080_CTRL_GR_INFO_INDEX_*."""

    SM_VERSION = 0x0C
    MAX_WARPS_PER_SM = 0x0D
    LITTER_NUM_GPCS = 0x14
    LITTER_NUM_TPC_PER_GPC = 0x17
    LITTER_NUM_SM_PER_TPC = 0x20


class FbInfo(IntEnum):
    """NV2080_CTRL_FB_INFO_INDEX_*; sizes in KiB."""

    HEAP_SIZE = 0x09
    HEAP_FREE = 0x16


class GpuIdInfo(Struct, size=32):
    """NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS."""

    gpu_id: int = u32()
    gpu_flags: int = u32()
    device_instance: int = u32()
    sub_device_instance: int = u32()
    sli_status: int = u32()
    board_id: int = u32()
    gpu_instance: int = u32()
    numa_id: int = i32()


class ClassList(Struct, size=16):
    """NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS: a null list asks for the number."""

    num_classes: int = u32()
    pad: int = u32()
    class_list: int = u64()


class Gid(Struct, size=268):
    """NV2080_CTRL_GPU_GET_GID_INFO_PARAMS."""

    index: int = u32()
    flags: int = u32()
    length: int = u32()
    data: bytes = chars(GID_BYTES)


class GrGetInfo(Struct, size=32):
    """NV2080_CTRL_GR_GET_INFO_PARAMS: (index, data) pairs at the pointer."""

    gr_info_list_size: int = u32()
    pad: int = u32()
    gr_info_list: int = u64()
    route_flags: int = u32()
    pad2: int = u32()
    route: int = u64()


class FbGetInfo(Struct, size=436):
    """NV2080_CTRL_FB_GET_INFO_V2_PARAMS in 535: (index, data) pairs in line."""

    fb_info_list_size: int = u32()
    fb_info_list: tuple[int, ...] = u32(2 * 0x36)


class FbGetInfo550(Struct, size=444):
    """NV2080_CTRL_FB_GET_INFO_V2_PARAMS in 550."""

    fb_info_list_size: int = u32()
    fb_info_list: tuple[int, ...] = u32(2 * 0x37)


class FbGetInfo570(Struct, size=460):
    """The same since 570."""

    fb_info_list_size: int = u32()
    fb_info_list: tuple[int, ...] = u32(2 * 0x39)


class FbGetInfo580(Struct, size=1028):
    """The same since 580."""

    fb_info_list_size: int = u32()
    fb_info_list: tuple[int, ...] = u32(2 * 0x80)


class Engines(Struct, size=252):
    """NV2080_CTRL_GPU_GET_ENGINES_V2_PARAMS in 535."""

    engine_count: int = u32()
    engine_list: tuple[int, ...] = u32(0x3E)


class Engines550(Struct, size=260):
    """NV2080_CTRL_GPU_GET_ENGINES_V2_PARAMS in 550."""

    engine_count: int = u32()
    engine_list: tuple[int, ...] = u32(0x40)


class Engines570(Struct, size=340):
    """The same since 570."""

    engine_count: int = u32()
    engine_list: tuple[int, ...] = u32(0x54)


class Schedule(Struct, size=2):
    """NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS, before 580."""

    b_enable: int = u8()
    b_skip_submit: int = u8()


class Schedule580(Struct, size=3):
    """The same since 580."""

    b_enable: int = u8()
    b_skip_submit: int = u8()
    b_skip_enable: int = u8()


class WorkSubmitToken(Struct, size=4):
    """NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS."""

    work_submit_token: int = u32()


class MmuFaults(Struct, size=72):
    """NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS: faults of 16 bytes, consumed by the read."""

    mmu_fault_info_list: bytes = chars(16 * MAX_MMU_FAULTS)
    count: int = u32()
    pad: int = u32()


class ChannelMmuFault(Struct, size=104):
    """NV906F_CTRL_GET_MMU_FAULT_INFO_PARAMS: the last fault of a channel, cleared by the read."""

    addr_hi: int = u32()
    addr_lo: int = u32()
    fault_type: int = u32()
    fault_string: bytes = chars(32)
    shader_program_va: tuple[int, ...] = u64(7)


class SmErrorStates(Struct, size=4824):
    """NV83DE_CTRL_DEBUG_READ_ALL_SM_ERROR_STATES_PARAMS."""

    h_target_channel: int = u32()
    num_sms_to_read: int = u32()
    sm_error_state_array: bytes = chars(SM_STATE_BYTES * MAX_SMS)
    mmu_fault_info: int = u32()
    mmu_valid: int = u8()
    pad: tuple[int, ...] = u8(3)
    mmu_info: int = u32()
    starting_sm: int = u32()


class CurrentPstate(Struct, size=4):
    """NV2080_CTRL_PERF_GET_CURRENT_PSTATE_PARAMS: one bit, bit n for Pn."""

    curr_pstate: int = u32()


class ComputeModeRules(Struct, size=4):
    """NV2080_CTRL_GPU_QUERY_COMPUTE_MODE_RULES_PARAMS."""

    rules: int = u32()


class PerfBoost(Struct, size=8):
    """NV2080_CTRL_PERF_BOOST_PARAMS."""

    flags: int = u32()
    duration: int = u32()


class CcCapabilities(Struct, size=5):
    """NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES_PARAMS in 535."""

    cpu_capability: int = u8()
    gpus_capability: int = u8()
    environment: int = u8()
    cc_feature: int = u8()
    dev_tools_mode: int = u8()


class CcCapabilities550(Struct, size=6):
    """NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES_PARAMS since 550."""

    cpu_capability: int = u8()
    gpus_capability: int = u8()
    environment: int = u8()
    cc_feature: int = u8()
    dev_tools_mode: int = u8()
    multi_gpu_mode: int = u8()


@dataclass(frozen=True, slots=True)
class Control:
    """One control: NVIDIA's name of its number, and what it takes."""

    name: str
    cmd: int
    args: type[Struct]


GET_ID_INFO = Control("NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2", 0x205, GpuIdInfo)
GET_CLASSLIST = Control("NV0080_CTRL_CMD_GPU_GET_CLASSLIST", 0x800201, ClassList)
GET_GID_INFO = Control("NV2080_CTRL_CMD_GPU_GET_GID_INFO", 0x2080014A, Gid)
GR_GET_INFO = Control("NV2080_CTRL_CMD_GR_GET_INFO", 0x20801201, GrGetInfo)
FB_GET_INFO = Control("NV2080_CTRL_CMD_FB_GET_INFO_V2", 0x20801303, FbGetInfo)
FB_GET_INFO_550 = Control("NV2080_CTRL_CMD_FB_GET_INFO_V2", 0x20801303, FbGetInfo550)
FB_GET_INFO_570 = Control("NV2080_CTRL_CMD_FB_GET_INFO_V2", 0x20801303, FbGetInfo570)
FB_GET_INFO_580 = Control("NV2080_CTRL_CMD_FB_GET_INFO_V2", 0x20801303, FbGetInfo580)
GET_ENGINES = Control("NV2080_CTRL_CMD_GPU_GET_ENGINES_V2", 0x20800170, Engines)
GET_ENGINES_550 = Control("NV2080_CTRL_CMD_GPU_GET_ENGINES_V2", 0x20800170, Engines550)
GET_ENGINES_570 = Control("NV2080_CTRL_CMD_GPU_GET_ENGINES_V2", 0x20800170, Engines570)
SCHEDULE = Control("NVA06C_CTRL_CMD_GPFIFO_SCHEDULE", 0xA06C0101, Schedule)
SCHEDULE_580 = Control("NVA06C_CTRL_CMD_GPFIFO_SCHEDULE", 0xA06C0101, Schedule580)
GET_WORK_SUBMIT_TOKEN = Control(
    "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN", 0xC36F0108, WorkSubmitToken
)
READ_MMU_FAULT_INFO = Control("NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO", 0x83DE0328, MmuFaults)
GET_MMU_FAULT_INFO = Control("NV906F_CTRL_CMD_GET_MMU_FAULT_INFO", 0x906F0106, ChannelMmuFault)
READ_SM_ERROR_STATES = Control(
    "NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES", 0x83DE030C, SmErrorStates
)
GET_CURRENT_PSTATE = Control("NV2080_CTRL_CMD_PERF_GET_CURRENT_PSTATE", 0x20802068, CurrentPstate)
PERF_BOOST = Control("NV2080_CTRL_CMD_PERF_BOOST", 0x2080200A, PerfBoost)
QUERY_COMPUTE_MODE_RULES = Control(
    "NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES", 0x20800131, ComputeModeRules
)
GET_CC_CAPABILITIES = Control(
    "NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES", 0xCB330101, CcCapabilities
)
GET_CC_CAPABILITIES_550 = Control(
    "NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES", 0xCB330101, CcCapabilities550
)


@dataclass(frozen=True, slots=True)
class PlainControl:
    """A control that takes nothing."""

    name: str
    cmd: int


ACQUIRE_COMPUTE_MODE_RESERVATION = PlainControl(
    "subdeviceCtrlCmdGpuAcquireComputeModeReservation", 0x20800145
)
"""By the function behind it: the headers have no name for it.
# src: src/nvidia/generated/g_subdevice_nvoc.c, methodId 0x20800145: 535.43.28 to 595.45.04"""
