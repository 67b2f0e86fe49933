"""What NVIDIA's headers must say for our declarations to be right, as C expressions and numbers.

`python -m tests.abi.nv_header VERSION TREE` prints the numbers that the C compiler finds in a tree
of NVIDIA/open-gpu-kernel-modules; nv_headers.json keeps them for the releases named in it.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path

from drivers.base.ioctl import Ioctl, Struct
from drivers.nv.nvk import abi, allocations, controls, escapes, modes, sensors, uvm
from drivers.nv.nvk.abi import Abi
from drivers.nv.nvk.controls import Control
from drivers.nv.nvk.status import NvStatus
from tests.c_compiler import CCompiler, any_compiler

SDK = "src/common/sdk/nvidia/inc"
INCLUDES = (
    SDK, "src/nvidia/arch/nvalloc/unix/include", "kernel-open/common/inc",
    "kernel-open/nvidia-uvm", "src/common/shared/inc", "common/inc", "nvidia-uvm",
)  # fmt: skip
HEADERS = (
    "nvtypes.h", "nvos.h", "nvgputypes.h", "nverror.h", "nvstatus.h", "nv-ioctl.h",
    "nv-ioctl-numbers.h",
    "nv_escape.h", "nv-unix-nvos-params-wrappers.h", "alloc/alloc_channel.h", "class/cl0080.h",
    "class/cl2080.h", "class/clc661.h", "class/cl83de.h", "class/clb0b5sw.h",
    "class/cl0041.h", "class/cl003e.h", "class/cl0040.h", "class/cl0071.h", "class/cl90f1.h",
    "class/cl9067.h", "class/cla06c.h", "class/clcb33.h", "ctrl/ctrlcb33.h",
    "ctrl/ctrl0000/ctrl0000gpu.h",
    "ctrl/ctrl0080/ctrl0080gpu.h", "ctrl/ctrl2080/ctrl2080gpu.h",
    "ctrl/ctrl2080/ctrl2080perf.h", "ctrl/ctrl2080/ctrl2080thermal.h",
    "ctrl/ctrl2080/ctrl2080gr.h", "ctrl/ctrl2080/ctrl2080fb.h", "ctrl/ctrla06c.h",
    "ctrl/ctrl906f.h", "ctrl/ctrlc36f.h", "ctrl/ctrl83de/ctrl83dedebug.h", "uvm_linux_ioctl.h",
)  # fmt: skip
KERNEL_HEADERS = ("nvtypes.h", "nv-ioctl.h", "nv-ioctl-numbers.h", "uvm_linux_ioctl.h")
KERNEL_PART = re.compile(
    r"UVM_(?!ADDRESS)|UvmGpu|nv_ioctl_(?!nvos)|NV_ESC_(CARD|REGISTER|CHECK)|NV_RM_API"
)
STRUCTS: dict[str, str] = {
    "RmApiVersion": "nv_ioctl_rm_api_version_t", "CardInfo": "nv_ioctl_card_info_t",
    "RegisterFd": "nv_ioctl_register_fd_t", "RmFree": "NVOS00_PARAMETERS",
    "RmAlloc": "NVOS21_PARAMETERS", "RmControl": "NVOS54_PARAMETERS",
    "RmAllocMemory": "nv_ioctl_nvos02_parameters_with_fd",
    "RmMapMemory": "nv_ioctl_nvos33_parameters_with_fd", "RmUnmapMemory": "NVOS34_PARAMETERS",
    "DeviceAlloc": "NV0080_ALLOC_PARAMETERS", "SubdeviceAlloc": "NV2080_ALLOC_PARAMETERS",
    "MemoryAlloc": "NV_MEMORY_ALLOCATION_PARAMS",
    "VaSpaceAlloc": "NV_VASPACE_ALLOCATION_PARAMETERS",
    "ChannelGroupAlloc": "NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS",
    "ContextShareAlloc": "NV_CTXSHARE_ALLOCATION_PARAMETERS",
    "CopyAlloc": "NVB0B5_ALLOCATION_PARAMETERS", "UsermodeAlloc": "NV_HOPPER_USERMODE_A_PARAMS",
    "DebuggerAlloc": "NV83DE_ALLOC_PARAMETERS", "ChannelAlloc": "NV_CHANNEL_ALLOC_PARAMS",
    "Notification": "NvNotification", "Initialize": "UVM_INITIALIZE_PARAMS",
    "MmInitialize": "UVM_MM_INITIALIZE_PARAMS", "RegisterGpu": "UVM_REGISTER_GPU_PARAMS",
    "UnregisterGpu": "UVM_UNREGISTER_GPU_PARAMS",
    "RegisterGpuVaSpace": "UVM_REGISTER_GPU_VASPACE_PARAMS",
    "UnregisterGpuVaSpace": "UVM_UNREGISTER_GPU_VASPACE_PARAMS",
    "RegisterChannel": "UVM_REGISTER_CHANNEL_PARAMS",
    "UnregisterChannel": "UVM_UNREGISTER_CHANNEL_PARAMS",
    "EnablePeerAccess": "UVM_ENABLE_PEER_ACCESS_PARAMS",
    "CreateExternalRange": "UVM_CREATE_EXTERNAL_RANGE_PARAMS",
    "MapExternalAllocation": "UVM_MAP_EXTERNAL_ALLOCATION_PARAMS",
    "UnmapExternal": "UVM_UNMAP_EXTERNAL_PARAMS", "UvmFree": "UVM_FREE_PARAMS",
    "GpuIdInfo": "NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS",
    "ClassList": "NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS",
    "Gid": "NV2080_CTRL_GPU_GET_GID_INFO_PARAMS", "GrGetInfo": "NV2080_CTRL_GR_GET_INFO_PARAMS",
    "FbGetInfo": "NV2080_CTRL_FB_GET_INFO_V2_PARAMS",
    "Engines": "NV2080_CTRL_GPU_GET_ENGINES_V2_PARAMS",
    "Schedule": "NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS",
    "WorkSubmitToken": "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS",
    "MmuFaults": "NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS",
    "ChannelMmuFault": "NV906F_CTRL_GET_MMU_FAULT_INFO_PARAMS",
    "SmErrorStates": "NV83DE_CTRL_DEBUG_READ_ALL_SM_ERROR_STATES_PARAMS",
    "CurrentPstate": "NV2080_CTRL_PERF_GET_CURRENT_PSTATE_PARAMS",
    "ComputeModeRules": "NV2080_CTRL_GPU_QUERY_COMPUTE_MODE_RULES_PARAMS",
    "CcCapabilities": "NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES_PARAMS",
    "ConfidentialAlloc": "NV_CONFIDENTIAL_COMPUTE_ALLOC_PARAMS",
    "PerfBoost": "NV2080_CTRL_PERF_BOOST_PARAMS",
    "ThermalSystem": "NV2080_CTRL_THERMAL_SYSTEM_EXECUTE_V2_PARAMS",
    "UtilSamples": "NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS",
}  # fmt: skip
"""Our names, without the release at their end, and NVIDIA's."""
MEMBERS = {
    "fd": "fd", "h_va_space": "hVASpace", "ctl_fd": "ctl_fd", "vendor_id": "vendor_id",
    "device_id@CardInfo": "pci_info.device_id", "gpu_id@CardInfo": "gpu_id",
    "gpu_uuid@RegisterGpu": "gpu_uuid", "gpu_uuid@UnregisterGpu": "gpu_uuid",
    "h_va_space@RegisterGpuVaSpace": "hVaSpace", "h_class3d_object": "hClass3dObject",
    "h_debugger_client_obsolete": "hDebuggerClient_Obsolete", "gpu_uuid_a": "gpuUuidA",
    "gpu_uuid_b": "gpuUuidB", "nanoseconds": "timeStamp",
    "shader_program_va": "shaderProgramVA", "mmu_valid": "mmuFault.valid",
    "mmu_info": "mmuFault.faultInfo", "starting_sm": "startingSM",
    "num_sms_to_read": "numSMsToRead",
    "client_api_version": "clientAPIVersion", "client_api_revision": "clientAPIRevision",
    "b_is_calling_context_vgpu_plugin": "bIsCallingContextVgpuPlugin",
    "gpu_uuid@MapExternalAllocation": "perGpuAttributes[0].gpuUuid",
    "gpu_mapping_type": "perGpuAttributes[0].gpuMappingType",
    "gpu_caching_type": "perGpuAttributes[0].gpuCachingType",
    "gpu_format_type": "perGpuAttributes[0].gpuFormatType",
    "gpu_element_bits": "perGpuAttributes[0].gpuElementBits",
    "gpu_compression_type": "perGpuAttributes[0].gpuCompressionType",
    "other_gpus": "perGpuAttributes[1]", "route_flags": "grRouteInfo.flags",
    "route": "grRouteInfo.route",
    **{
        f"{name}@CardInfo": f"pci_info.{name}"
        for name in ("domain", "bus", "slot", "function", "vendor_id")
    },
    **{f"{name}@CardInfo": name for name in (
        "interrupt_line", "reg_address", "reg_size", "fb_address", "fb_size", "minor_number",
        "dev_name")},
}  # fmt: skip
"""Where a member is not our name in camel case."""
WRAPPED = {"RmAllocMemory", "RmMapMemory"}
"""Whose members but `fd` are in `params`."""
UNSIZED = {"other_gpus", "nanoseconds", "reserved"}


def member(kind: str, name: str) -> str:
    """The C member of one of ours."""
    if name == "pad" or name.startswith("pad") or name == "reserved":
        return ""
    head, *rest = name.split("_")
    camel = head + "".join(part.capitalize() for part in rest)
    found = MEMBERS.get(f"{name}@{kind}", MEMBERS.get(name, camel))
    return f"params.{found}" if kind in WRAPPED and name != "fd" else found


def layout(args: type[Struct]) -> dict[str, int]:
    """Size, offsets and member sizes of one struct."""
    kind = args.__name__.rstrip("0123456789")
    name = STRUCTS[kind]
    found = {f"sizeof({name})": args.SIZE}
    for field in args.FIELDS:
        text = member(kind, field.name)
        if text:
            found[f"offsetof({name}, {text})"] = field.offset
            if field.name not in UNSIZED:
                found[f"sizeof((({name} *)0)->{text})"] = field.layout.size
    return found


def structs_of(table: Abi) -> list[type[Struct]]:
    """Every struct that a release takes."""
    differing = {
        "MemoryAlloc": table.memory, "MapExternalAllocation": table.map_external.args,
        "VaSpaceAlloc": table.va_space, "ChannelAlloc": table.channel,
        "Schedule": table.schedule.args, "FbGetInfo": table.fb_get_info.args,
        "Engines": table.get_engines.args, "UvmFree": table.uvm_free.args,
        "UnregisterChannel": table.unregister_channel.args,
        "CcCapabilities": table.cc_capabilities.args,
    }  # fmt: skip
    later = {"CurrentPstate"} if table.since < sensors.PSTATE_SINCE else set()
    plain = [
        getattr(module, name)
        for name in STRUCTS
        if name not in differing and name not in later
        for module in (escapes, allocations, uvm, controls)
        if hasattr(module, name)
    ]
    return [*plain, *differing.values()]


def numbers() -> dict[str, int]:
    """Requests, controls, classes, flags: C names -> what we say."""
    found = {name: item.request & 0xFF for name, item in escapes.ESCAPES.items()}
    requests = [item for item in vars(uvm).values() if isinstance(item, Ioctl)]
    found |= {item.name: item.request for item in requests}
    found |= {one.name: one.cmd for one in vars(controls).values() if isinstance(one, Control)}
    for prefix, kind in (
        ("NV2080_CTRL_GR_INFO_INDEX_", controls.GrInfo),
        ("NV2080_CTRL_FB_INFO_INDEX_", controls.FbInfo), ("", allocations.RmClass),
        ("NVOS32_TYPE_", allocations.MemoryType), ("NVOS32_ALLOC_FLAGS_", allocations.AllocFlag),
        ("NV_VASPACE_ALLOCATION_FLAGS_", allocations.VaSpaceFlag),
    ):  # fmt: skip
        members = kind.__members__.items()
        found |= {prefix + name: int(value) for name, value in members}
    found |= {f"NV_ERR_{one.name}": int(one) for one in NvStatus if one}
    for name, value in {
        "NVOS33_FLAGS_CACHING_TYPE_WRITECOMBINED": allocations.CACHING_WRITECOMBINED >> 23,
        "NVOS33_FLAGS_CACHING_TYPE_DEFAULT": allocations.CACHING_DEFAULT >> 23,
        "NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_ASYNC": allocations.SUBCONTEXT_ASYNC,
        "NV2080_ENGINE_TYPE_GRAPHICS": allocations.ENGINE_GRAPHICS,
        "NV2080_ENGINE_TYPE_COPY0": allocations.ENGINE_COPY0,
        "NVB0B5_ALLOCATION_PARAMETERS_VERSION_1": allocations.COPY_BY_ENGINE_TYPE,
        "NV_RM_API_VERSION_CMD_QUERY": escapes.QUERY, "NV_MAX_DEVICES": escapes.MAX_CARDS,
        "UvmGpuMappingTypeReadWriteAtomic": uvm.READ_WRITE_ATOMIC,
        "UvmGpuMappingTypeReadOnly": uvm.READ_ONLY,
        "NVOS32_ATTR_LOCATION_PCI": allocations.Attr.LOCATION_PCI >> 25,
        "NVOS32_ATTR_PHYSICALITY_CONTIGUOUS": allocations.Attr.PHYSICALITY_CONTIGUOUS >> 27,
        "NVOS32_ATTR_COHERENCY_CACHED": allocations.Attr.COHERENCY_CACHED >> 29,
        "NVOS32_ATTR_PAGE_SIZE_HUGE": allocations.Attr.PAGE_SIZE_HUGE >> 23,
        "NVOS32_ATTR2_GPU_CACHEABLE_NO": allocations.Attr2.GPU_CACHEABLE_NO >> 2,
        "UVM_INIT_FLAGS_DISABLE_HMM": uvm.DISABLE_HMM,
        "NV2080_CTRL_PERF_BOOST_FLAGS_CMD_CLEAR": modes.BOOST_CLEAR,
        "NV2080_CTRL_PERF_BOOST_FLAGS_CMD_BOOST_TO_MAX": modes.BOOST_TO_MAX,
        "NV2080_CTRL_PERF_BOOST_FLAGS_CUDA_YES": modes.BOOST_CUDA >> 4,
        "NV2080_CTRL_PERF_BOOST_FLAGS_CUDA_PRIORITY_HIGH": modes.BOOST_CUDA_HIGH >> 6,
        "NV2080_CTRL_PERF_BOOST_DURATION_INFINITE": modes.BOOST_UNTIL_CLEARED,
        "NV2080_CTRL_GPU_COMPUTE_MODE_RULES_COMPUTE_PROHIBITED": modes.PROHIBITED,
    }.items():  # fmt: skip
        found[name] = int(value)
    return found


def expectations(version: str) -> dict[str, int]:
    """C expression -> the number our declarations say it has in a release."""
    found: dict[str, int] = {}
    since = abi.abi_of(version).since
    if since > abi.ABI_535.since:
        found["NV_CONF_COMPUTE_SYSTEM_MULTI_GPU_MODE_PROTECTED_PCIE"] = modes.PROTECTED_PCIE
    if since >= sensors.THERMAL_SINCE:
        found |= layout(sensors.ThermalSystem) | {
            sensors.EXECUTE.name: sensors.EXECUTE.cmd,
            "sizeof(NV2080_CTRL_THERMAL_SYSTEM_INSTRUCTION)": sensors.INSTRUCTION_BYTES,
        }
    if since >= sensors.UTIL_SINCE:
        sample = "NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE"
        found |= layout(sensors.UtilSamples) | {
            sensors.GET_UTIL_SAMPLES.name: sensors.GET_UTIL_SAMPLES.cmd,
            f"sizeof({sample})": sensors.UTIL_BYTES,
            f"offsetof({sample}, gr.util)": sensors.GR_OFF,
            f"offsetof({sample}, fb.util)": sensors.FB_OFF,
        }
    for args in structs_of(abi.abi_of(version)):
        found |= layout(args)
    found |= numbers()
    if since < sensors.PSTATE_SINCE:
        del found[controls.GET_CURRENT_PSTATE.name]
    return found


def kernel_part(expected: dict[str, int]) -> dict[str, int]:
    """Those that the headers of the kernel modules alone define: a distribution has no others."""
    return {name: value for name, value in expected.items() if KERNEL_PART.search(name)}


def evaluate(
    compiler: CCompiler,
    tree: Path,
    names: list[str],
    folder: Path,
    headers: tuple[str, ...] = HEADERS,
) -> dict[str, int]:
    """What a C compiler makes of each of these under the headers of a tree."""
    lines = [f"#include <{name}>" for name in ("stddef.h", *headers)]
    body = ",\n".join(f"(unsigned long long)({name})" for name in names)
    source = "\n".join(lines) + f"\nconst unsigned long long values[] = {{\n{body}\n}};\n"
    options = [f"-I{tree / path}" for path in INCLUDES]
    raw = compiler.constant(source, "values", folder, *options, "-DNV_UNIX", "-w")
    return dict(zip(names, memoryview(raw).cast("Q"), strict=True))


def main(version: str, tree: str) -> str:
    """One release's line of nv_headers.json."""
    with tempfile.TemporaryDirectory() as name:
        values = evaluate(
            any_compiler(), Path(tree).resolve(), list(expectations(version)), Path(name)
        )
    return f"{json.dumps(version)}: {json.dumps(values)}"


if __name__ == "__main__":
    sys.stdout.write(main(*sys.argv[1:]) + "\n")
