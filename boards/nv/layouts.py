"""Structs of the kernel driver's interface, as version 580 has them; older and newer ones below.

src: open-gpu-kernel-modules 595.45.04, compiled: src/common/sdk/nvidia/inc (nvos.h, class, ctrl),
kernel-open/common/inc/nv-ioctl.h, kernel-open/nvidia-uvm/uvm_linux_ioctl.h
"""

from __future__ import annotations

from collections.abc import Mapping

from boards.machine.records import Record

_NVOS33 = "hClient:I hDevice:I hMemory:I offset:Q length:Q pLinearAddress:Q status:I flags:I"
_NVOS02 = "hRoot:I hObjectParent:I hObjectNew:I hClass:I flags:I pMemory:Q limit:Q status:I _pad:I"
_DESC = "{0}Base:Q {0}Size:Q {0}Space:I {0}Cache:I"
_CHANNEL = " ".join([
    "hObjectError:I hObjectBuffer:I gpFifoOffset:Q gpFifoEntries:I flags:I hContextShare:I",
    "hVASpace:I hUserdMemory:8I userdOffset:8Q engineType:I cid:I subDeviceId:I",
    "hObjectEccError:I", *(_DESC.format(part) for part in ("inst", "userd", "ramfc", "mthdbuf")),
    "hPhysChannelGroup:I internalFlags:I", _DESC.format("errorNotifier"),
    _DESC.format("eccErrorNotifier"),
    "ProcessID:I SubProcessID:I encryptIv:3I decryptIv:3I hmacNonce:8I",
])  # fmt: skip
_MEMORY = (
    "owner:I type:I flags:I width:I height:I pitch:i attr:I attr2:I format:I comprCovg:I"
    " zcullCovg:I rangeLo:Q rangeHi:Q size:Q alignment:Q offset:Q limit:Q address:Q"
    " ctagOffset:I hVASpace:I internalflags:I tag:I"
)
_MAP_EXTERNAL = (
    "base:Q length:Q offset:Q attributes:{0}s gpuAttributesCount:Q rmCtrlFd:i hClient:I hMemory:I"
    " rmStatus:I"
)
_VASPACE = "index:I flags:I vaSize:Q vaStartInternal:Q vaLimitInternal:Q bigPageSize:I vaBase:Q"
_UUID_STATUS = "uuid:16s rmStatus:I"
_SCHEDULE = "bEnable:B bSkipSubmit:B bSkipEnable:B"

_COMMON: Mapping[str, str] = {
    # Escapes
    "NVOS00": "hRoot:I hObjectParent:I hObjectOld:I status:I",
    "NVOS02_FD": f"{_NVOS02} fd:i",
    "NVOS21": "hRoot:I hObjectParent:I hObjectNew:I hClass:I pAllocParms:Q paramsSize:I status:I",
    "NVOS64": "hRoot:I hObjectParent:I hObjectNew:I hClass:I pAllocParms:Q pRightsRequested:Q"
              " paramsSize:I flags:I status:I",
    "NVOS54": "hClient:I hObject:I cmd:I flags:I params:Q paramsSize:I status:I",
    "NVOS33_FD": f"{_NVOS33} fd:i",
    "NVOS34": "hClient:I hDevice:I hMemory:I pLinearAddress:Q status:I flags:I",
    "NVOS46": "hClient:I hDevice:I hDma:I hMemory:I offset:Q length:Q flags:I flags2:I"
              " kindOverride:I dmaOffset:Q status:I",
    "NVOS47": "hClient:I hDevice:I hDma:I hMemory:I flags:I dmaOffset:Q size:Q status:I",
    "card_info": "valid:B domain:I bus:B slot:B function:B pad:B vendor_id:H device_id:H gpu_id:I"
                 " interrupt_line:H reg_address:Q reg_size:Q fb_address:Q fb_size:Q"
                 " minor_number:I dev_name:10s",
    "version": "cmd:I reply:I versionString:64s",
    "register_fd": "ctl_fd:i",
    "xfer": "cmd:I size:I ptr:Q",
    # Parameters of classes
    "NV0000_ALLOC": "hClient:I processID:I processName:100s pOsPidInfo:Q",
    "NV0080_ALLOC": "deviceId:I hClientShare:I hTargetClient:I hTargetDevice:I flags:I"
                    " vaSpaceSize:Q vaStartInternal:Q vaLimitInternal:Q vaMode:I",
    "NV2080_ALLOC": "subDeviceId:I",
    "MEMORY": f"{_MEMORY} numaNode:i",
    "MEMORY_VIRTUAL": "offset:Q limit:Q hVASpace:I",
    "VASPACE": f"{_VASPACE} pasid:I",
    "CHANNEL_GROUP": "hObjectError:I hObjectEccError:I hVASpace:I engineType:I"
                     " bIsCallingContextVgpuPlugin:B",
    "CTXSHARE": "hVASpace:I flags:I subctxId:I",
    "CHANNEL": f"{_CHANNEL} tpcConfigID:I",
    "NV83DE_ALLOC": "hDebuggerClient_Obsolete:I hAppClient:I hClass3dObject:I",
    "HOPPER_USERMODE": "bBar1Mapping:B bPriv:B",
    "NVB0B5_ALLOC": "version:I engineType:I",
    "GR_ALLOC": "version:I flags:I size:I caps:I",
    # Parameters of controls
    "BUILD_VERSION_V2": "driverVersionBuffer:256s versionBuffer:256s driverBranch:256s"
                        " titleBuffer:256s changelistNumber:I officialChangelistNumber:I",
    "ID_INFO_V2": "gpuId:I gpuFlags:I deviceInstance:I subDeviceInstance:I sliStatus:I boardId:I"
                  " gpuInstance:I numaId:i",
    "PROBED_IDS": "gpuIds:32I excludedGpuIds:32I",
    "ATTACHED_IDS": "gpuIds:32I",
    "ATTACH_IDS": "gpuIds:32I failedId:I",
    "CLASSLIST": "numClasses:I classList:Q",
    "CLASSLIST_V2": "numClasses:I classList:200I",
    "NUM_SUBDEVICES": "numSubDevices:I",
    "PERF_BOOST": "flags:I duration:I",
    "COMPUTE_MODE_RULES": "rules:I",
    "CONFIDENTIAL_ALLOC": "hClient:I",
    "CC_CAPABILITIES": "cpuCapability:B gpusCapability:B environment:B ccFeature:B devToolsMode:B"
                       " multiGpuMode:B",
    "GID_INFO": "index:I flags:I length:I data:256s",
    "GR_INFO": "grInfoListSize:I grInfoList:Q routeFlags:I route:Q",
    "ENGINES_V2": "engineCount:I engineList:84I",
    "FB_INFO_V2": "fbInfoListSize:I fbInfoList:256I",
    "FB_FLUSH_GPU_CACHE": "addressArray:500Q addressArraySize:I addressAlign:I memBlockSizeBytes:Q"
                          " flags:I",
    "NAME_STRING": "gpuNameStringFlags:I gpuNameString:128s",
    "CURRENT_PSTATE": "currPstate:I",
    "THERMAL_EXECUTE_V2": "clientAPIVersion:I clientAPIRevision:I clientInstructionSizeOf:I"
                          " executeFlags:I successfulInstructions:I instructionListSize:I"
                          " instructionList:1408s",
    "UTIL_SAMPLES_V2": "type:B bufSize:I count:I tracker:I samples:55872s",
    "CE_ALL_CAPS": "capsTbl:128s present:Q",
    "ARCH_INFO": "architecture:I implementation:I revision:I subRevision:B",
    "PCI_INFO": "pciDeviceId:I pciSubSystemId:I pciRevisionId:I pciExtDeviceId:I",
    "TSG_SCHEDULE": _SCHEDULE,
    "CHANNEL_SCHEDULE": _SCHEDULE,
    "BIND": "engineType:I",
    "TIMESLICE": "timesliceUs:Q",
    "PREEMPT": "bWait:B bManualTimeout:B timeoutUs:I",
    "WORK_SUBMIT_TOKEN": "workSubmitToken:I",
    "CHANNEL_MMU_FAULT": "addrHi:I addrLo:I faultType:I faultString:32s shaderProgramVA:7Q",
    "SM_ERROR_STATES": "hTargetChannel:I numSMsToRead:I states:4800s mmuFaultInfo:I"
                       " mmuFaultValid:B mmuFaultData:I startingSM:I",
    "MMU_FAULT_INFO": "mmuFaultInfoList:8Q count:I",
    "CLEAR_SM_ERRORS": "hTargetChannel:I numSMsToClear:I",
    # UVM
    "UVM_INITIALIZE": "flags:Q rmStatus:I",
    "UVM_MM_INITIALIZE": "uvmFd:i rmStatus:I",
    "UVM_REGISTER_GPU": "uuid:16s numaEnabled:B numaNodeId:i rmCtrlFd:i hClient:I hSmcPartRef:I"
                        " rmStatus:I",
    "UVM_UNREGISTER_GPU": _UUID_STATUS,
    "UVM_REGISTER_GPU_VASPACE": "uuid:16s rmCtrlFd:i hClient:I hVaSpace:I rmStatus:I",
    "UVM_UNREGISTER_GPU_VASPACE": _UUID_STATUS,
    "UVM_REGISTER_CHANNEL": "uuid:16s rmCtrlFd:i hClient:I hChannel:I base:Q length:Q rmStatus:I",
    "UVM_UNREGISTER_CHANNEL": "uuid:16s hClient:I hChannel:I rmStatus:I",
    "UVM_ENABLE_PEER_ACCESS": "uuidA:16s uuidB:16s rmStatus:I",
    "UVM_DISABLE_PEER_ACCESS": "uuidA:16s uuidB:16s rmStatus:I",
    "UVM_MAP_EXTERNAL_ALLOCATION": _MAP_EXTERNAL.format(256 * 36),
    "UVM_FREE": "base:Q length:Q rmStatus:I",
    "UVM_UNMAP_EXTERNAL": "base:Q length:Q uuid:16s rmStatus:I",
    "UVM_CREATE_EXTERNAL_RANGE": "base:Q length:Q rmStatus:I",
    "UVM_PAGEABLE_MEM_ACCESS": "pageableMemAccess:B rmStatus:I",
    "UVM_VALIDATE_VA_RANGE": "base:Q length:Q rmStatus:I",
}  # fmt: skip

_550: Mapping[str, str] = {
    "NV0000_ALLOC": "hClient:I processID:I processName:100s",
    "NVOS46": "hClient:I hDevice:I hDma:I hMemory:I offset:Q length:Q flags:I dmaOffset:Q status:I",
    "VASPACE": _VASPACE,
    "CHANNEL": _CHANNEL,
    "TSG_SCHEDULE": "bEnable:B bSkipSubmit:B",
    "CHANNEL_SCHEDULE": "bEnable:B bSkipSubmit:B",
    "BUILD_VERSION_V2": "driverVersionBuffer:256s versionBuffer:256s titleBuffer:256s"
                        " changelistNumber:I officialChangelistNumber:I",
    "CLASSLIST_V2": "numClasses:I classList:174I",
    "FB_INFO_V2": "fbInfoListSize:I fbInfoList:110I",
    "ENGINES_V2": "engineCount:I engineList:64I",
    "UTIL_SAMPLES_V2": "type:B bufSize:I count:I tracker:I samples:50688s",
}  # fmt: skip
_535: Mapping[str, str] = {
    **_550,
    "NVOS47": "hClient:I hDevice:I hDma:I hMemory:I flags:I dmaOffset:Q status:I",
    "MEMORY": _MEMORY,
    "CLASSLIST_V2": "numClasses:I classList:160I",
    "FB_INFO_V2": "fbInfoListSize:I fbInfoList:108I",
    "ENGINES_V2": "engineCount:I engineList:62I",
    "CC_CAPABILITIES": "cpuCapability:B gpusCapability:B environment:B ccFeature:B devToolsMode:B",
    "CE_ALL_CAPS": "capsTbl:64s present:I",
    "UTIL_SAMPLES_V2": "type:B bufSize:I count:I tracker:I samples:33984s",
    "UVM_MAP_EXTERNAL_ALLOCATION": _MAP_EXTERNAL.format(32 * 36),
}
"""From 535.86.05 on: 535.54.03 has channel parameters of 304 bytes, without those of
confidential computing."""
_570: Mapping[str, str] = {
    name: text
    for name, text in _550.items()
    if name not in ("NV0000_ALLOC", "BUILD_VERSION_V2", "ENGINES_V2", "CHANNEL", "UTIL_SAMPLES_V2")
} | {
    "CLASSLIST_V2": "numClasses:I classList:100I",
    "FB_INFO_V2": "fbInfoListSize:I fbInfoList:114I",
}
_590: Mapping[str, str] = {
    "UVM_FREE": "base:Q rmStatus:I",
    "UVM_UNREGISTER_CHANNEL": "hClient:I hChannel:I rmStatus:I",
    "PROBED_IDS": "gpuIds:32I excludedGpuIds:32I gpuFlags:32I",
}
_595 = {**_590, "NAME_STRING": "gpuNameStringFlags:I gpuNameString:64s"}
_610 = {**_595, "CHANNEL": _COMMON["CHANNEL"] + " reserved610:2I"}
"""src of 610: that its channel parameters have 376 bytes is all that is known of them."""
_RELEASES: Mapping[int, Mapping[str, str]] = {
    535: _535, 550: _550, 570: _570, 580: {"PROBED_IDS": _590["PROBED_IDS"]}, 590: _590, 595: _595,
    610: _610,
}  # fmt: skip
VERSIONS: Mapping[int, str] = {
    535: "535.247.01", 550: "550.163.01", 570: "570.144", 580: "580.65.06", 590: "590.44.01",
    595: "595.45.04", 610: "610.10",
}  # fmt: skip
"""The version string that a board of each branch reports; 535 is Debian 12's, 550 Debian 13's."""
DEFAULT, NEWEST = 580, 595
"""The branch without a choice, and the newest whose source is public."""


def records(branch: int) -> Mapping[str, Record]:
    """Every struct of a branch of the kernel driver, by name. Raises: ValueError."""
    if branch not in _RELEASES:
        known = ", ".join(map(str, _RELEASES))
        raise ValueError(f"no kernel driver {branch}: there are {known}")
    return {
        name: Record(name, members) for name, members in {**_COMMON, **_RELEASES[branch]}.items()
    }
