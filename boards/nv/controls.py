"""RM_CONTROL: the commands a driver needs, each with the kind of object that it is for.

src: open-gpu-kernel-modules, src/common/sdk/nvidia/inc/ctrl; rmapi/control.c
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace

from boards.nv import channel_controls, gpu_info, gpu_sensors, modes
from boards.nv.channel import Channel, ChannelGroup
from boards.nv.hardware import NvHardware
from boards.nv.objects import Client, Object
from boards.nv.tree import Debugger, Device, Subdevice

Run = Callable[[NvHardware, Object, SimpleNamespace], None]


@dataclass(frozen=True, slots=True)
class ControlRule:
    """A command: what it is for, its parameters, and what it does."""

    target: type[Object]
    record: str
    """"" for none."""
    run: Run


def _accepted(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """A hint, which changes nothing here."""


CONTROLS: Mapping[int, ControlRule] = {
    0x13E: ControlRule(Client, "BUILD_VERSION_V2", gpu_info.build_version),
    0x201: ControlRule(Client, "ATTACHED_IDS", gpu_info.attached_ids),
    0x205: ControlRule(Client, "ID_INFO_V2", gpu_info.id_info),
    0x214: ControlRule(Client, "PROBED_IDS", gpu_info.probed_ids),
    0x215: ControlRule(Client, "ATTACH_IDS", gpu_info.attach_ids),
    0x800201: ControlRule(Device, "CLASSLIST", gpu_info.class_list),
    0x800280: ControlRule(Device, "NUM_SUBDEVICES", gpu_info.subdevices),
    0x800292: ControlRule(Device, "CLASSLIST_V2", gpu_info.class_list_v2),
    0x20800110: ControlRule(Subdevice, "NAME_STRING", gpu_info.name_string),
    0x20800131: ControlRule(Subdevice, "COMPUTE_MODE_RULES", modes.rules),
    0x20800145: ControlRule(Subdevice, "", modes.acquire),
    0x20800146: ControlRule(Subdevice, "", modes.release),
    0x2080014A: ControlRule(Subdevice, "GID_INFO", gpu_info.gid_info),
    0x20800170: ControlRule(Subdevice, "ENGINES_V2", gpu_info.engines),
    0x20801201: ControlRule(Subdevice, "GR_INFO", gpu_info.graphics_info),
    0x2080130E: ControlRule(Subdevice, "FB_FLUSH_GPU_CACHE", gpu_info.flush_cache),
    0x20801303: ControlRule(Subdevice, "FB_INFO_V2", gpu_info.memory_info),
    0x20801701: ControlRule(Subdevice, "ARCH_INFO", gpu_info.architecture),
    0x20801801: ControlRule(Subdevice, "PCI_INFO", gpu_info.pci_info),
    0x20800513: ControlRule(Subdevice, "THERMAL_EXECUTE_V2", gpu_sensors.thermal),
    0x20802068: ControlRule(Subdevice, "CURRENT_PSTATE", gpu_sensors.pstate),
    0x20802096: ControlRule(Subdevice, "UTIL_SAMPLES_V2", gpu_sensors.utilisation),
    0x2080200A: ControlRule(Subdevice, "PERF_BOOST", _accepted),
    0x20802A0A: ControlRule(Subdevice, "CE_ALL_CAPS", gpu_info.copy_engines),
    0xA06C0101: ControlRule(ChannelGroup, "TSG_SCHEDULE", channel_controls.schedule),
    0xA06C0103: ControlRule(ChannelGroup, "TIMESLICE", _accepted),
    0xA06C0105: ControlRule(ChannelGroup, "PREEMPT", channel_controls.preempt),
    0xA06F0103: ControlRule(Channel, "CHANNEL_SCHEDULE", channel_controls.schedule_one),
    0xA06F0104: ControlRule(Channel, "BIND", channel_controls.bind),
    0xC36F0108: ControlRule(Channel, "WORK_SUBMIT_TOKEN", channel_controls.token),
    0x906F0106: ControlRule(Channel, "CHANNEL_MMU_FAULT", channel_controls.mmu_fault),
    0x83DE030C: ControlRule(Debugger, "SM_ERROR_STATES", channel_controls.sm_errors),
    0x83DE0310: ControlRule(Debugger, "CLEAR_SM_ERRORS", channel_controls.clear_sm_errors),
    0xCB330101: ControlRule(modes.ConfidentialCompute, "CC_CAPABILITIES", modes.capabilities),
    0x83DE0328: ControlRule(Debugger, "MMU_FAULT_INFO", channel_controls.debugger_faults),
}
"""By number. src of CLASSLIST_V2: ctrl0080gpu.h 0x800292"""
