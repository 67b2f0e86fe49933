"""Controls that describe the machine, a GPU, its memory and its engines."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import SimpleNamespace

from boards.machine import host
from boards.nv import status
from boards.nv.channel import ENGINE_COPY0, ENGINE_GRAPHICS
from boards.nv.hardware import NvGpu, NvHardware
from boards.nv.objects import Object
from boards.nv.status import RmError
from boards.nv.tree import Device
from boards.nv.user import load

_NVIDIA = 0x10DE
_DEVICE_SHIFT = 16
_NO_NUMA = -1
_NO_ID = 0xFFFF_FFFF
_IDS = 32
_ALL_IDS = 0xFFFF
_BINARY, _GID_BYTES = 2, 16
_WORD, _PAIR = 4, 8
_UNICODE = 1
_MOST_PAIRS = 64
_KIB = 10
_SM_PER_TPC, _WARP = 2, 32
_BUS_BITS = 384
# Controls of the client


def build_version(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """The driver's version as text."""
    args.driverVersionBuffer = args.versionBuffer = hardware.version.encode()
    args.titleBuffer = f"NVIDIA UNIX x86_64 Kernel Module  {hardware.version}".encode()


def _ids(hardware: NvHardware) -> list[int]:
    found = [gpu.gpu_id for gpu in hardware.gpus]
    return found + [_NO_ID] * (_IDS - len(found))


def attached_ids(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """GPUs that are in use."""
    found = [gpu.gpu_id for gpu in hardware.gpus if gpu.opens]
    args.gpuIds = found + [_NO_ID] * (_IDS - len(found))


def probed_ids(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """GPUs that there are."""
    args.gpuIds, args.excludedGpuIds = _ids(hardware), [_NO_ID] * _IDS


def attach_ids(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """Raises: RmError INVALID_ARGUMENT for a GPU that there is not."""
    known = {gpu.gpu_id for gpu in hardware.gpus} | {_NO_ID, _ALL_IDS}
    for number in args.gpuIds:
        if number not in known:
            args.failedId = number
            raise RmError(status.INVALID_ARGUMENT, f"no GPU {number:#x}")
        if number in (_NO_ID, _ALL_IDS):
            break


def id_info(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """The instances of a GPU whose node is open in some process. Raises: RmError INVALID_ARGUMENT.

    src: gpu_mgr.c gpumgrGetGpuIdInfoV2(), gpumgrGetGpuFromId()
    """
    found = next((gpu for gpu in hardware.gpus if gpu.gpu_id == args.gpuId), None)
    if found is None or not found.opens:
        raise RmError(status.INVALID_ARGUMENT, f"no GPU {args.gpuId:#x} that is in use")
    args.deviceInstance = args.gpuInstance = found.index
    args.subDeviceInstance, args.numaId = 0, _NO_NUMA


# Controls of a device


def class_list(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """How many classes, and where there is room, which. Raises: RmError, OSError EFAULT."""
    classes = target.ancestor(Device).gpu.chip.classes
    if args.classList:
        if args.numClasses < len(classes):
            raise RmError(status.INVALID_PARAM_STRUCT, f"room for {args.numClasses} classes")
        host.copy_to_user(args.classList, struct.pack(f"<{len(classes)}I", *classes))
    args.numClasses = len(classes)


def class_list_v2(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """The same in place."""
    classes = target.ancestor(Device).gpu.chip.classes
    args.classList[: len(classes)] = classes
    args.numClasses = len(classes)


def subdevices(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """One: there is no SLI."""
    args.numSubDevices = 1


# Controls of a subdevice


def name_string(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """What the card is called."""
    title = target.ancestor(Device).gpu.chip.title
    code = "utf-16-le" if args.gpuNameStringFlags & _UNICODE else "ascii"
    args.gpuNameString = title.encode(code)


def gid_info(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """The GPU's identifier. Raises: RmError NOT_SUPPORTED for any form but binary."""
    if not args.flags & _BINARY:
        raise RmError(status.NOT_SUPPORTED, "a GID as text is not modelled")
    args.data, args.length = target.ancestor(Device).gpu.uuid, _GID_BYTES


def engines(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """Graphics and copy engines."""
    chip = target.ancestor(Device).gpu.chip
    found = [ENGINE_GRAPHICS, *range(ENGINE_COPY0, ENGINE_COPY0 + chip.copies)]
    args.engineList[: len(found)] = found
    args.engineCount = len(found)


_GRAPHICS: Mapping[int, Callable[[NvGpu], int]] = {
    0x0C: lambda gpu: gpu.chip.sm_version,
    0x0D: lambda gpu: gpu.chip.warps,
    0x0E: lambda gpu: _WARP,
    0x14: lambda gpu: gpu.chip.gpcs,
    0x17: lambda gpu: gpu.chip.tpcs,
    0x20: lambda gpu: _SM_PER_TPC,
}
"""src: ctrl0080gr.h NV0080_CTRL_GR_INFO_INDEX_*"""


def graphics_info(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """A list of (index, data). Raises: RmError, OSError EFAULT."""
    gpu = target.ancestor(Device).gpu
    if not 0 < args.grInfoListSize <= _MOST_PAIRS:
        raise RmError(status.INVALID_ARGUMENT, f"a list of {args.grInfoListSize} values")
    data = load(args.grInfoList, args.grInfoListSize * _PAIR)
    for at in range(0, len(data), _PAIR):
        (index,) = struct.unpack_from("<I", data, at)
        if index not in _GRAPHICS:
            hardware.find("graphics information that is not modelled", f"index {index:#x}")
            raise RmError(status.NOT_SUPPORTED, f"graphics information {index:#x}")
        struct.pack_into("<I", data, at + _WORD, _GRAPHICS[index](gpu))
    host.copy_to_user(args.grInfoList, bytes(data))


_MEMORY: Mapping[int, Callable[[NvGpu], int]] = {
    0x07: lambda gpu: gpu.vram.nbytes >> _KIB,
    0x08: lambda gpu: gpu.vram.nbytes >> _KIB,
    0x09: lambda gpu: gpu.vram.nbytes >> _KIB,
    0x16: lambda gpu: gpu.memory.free_bytes >> _KIB,
    0x0B: lambda gpu: _BUS_BITS,
    0x20: lambda gpu: gpu.vram.nbytes >> _KIB,
}


def memory_info(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """A list of (index, data) in KiB. Raises: RmError NOT_SUPPORTED."""
    gpu = target.ancestor(Device).gpu
    if not 0 < args.fbInfoListSize * 2 <= len(args.fbInfoList):
        raise RmError(status.INVALID_ARGUMENT, f"a list of {args.fbInfoListSize} values")
    for number in range(args.fbInfoListSize):
        index = args.fbInfoList[2 * number]
        if index not in _MEMORY:
            hardware.find("memory information that is not modelled", f"index {index:#x}")
            raise RmError(status.NOT_SUPPORTED, f"memory information {index:#x}")
        args.fbInfoList[2 * number + 1] = _MEMORY[index](gpu)


def architecture(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """As PMC_BOOT_42 has it."""
    args.architecture, args.implementation = target.ancestor(Device).gpu.chip.architecture
    args.revision = 0xA1


def pci_info(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """Vendor and device."""
    device = target.ancestor(Device).gpu.chip.device_id
    args.pciDeviceId = device << _DEVICE_SHIFT | _NVIDIA
    args.pciExtDeviceId = device


def copy_engines(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """Which copy engines there are; their capability bits are left zero."""
    args.present = (1 << target.ancestor(Device).gpu.chip.copies) - 1


_WRITE_BACK, _INVALIDATE, _APERTURE, _APERTURES = 1 << 2, 1 << 3, 3, 3
_MODE_SHIFT, _FULL_CACHE, _MOST_ADDRESSES = 4, 1, 500


def flush_cache(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """FB_FLUSH_GPU_CACHE: a board has no L2 that could be stale. Raises: RmError.

    src: kern_mem_sys_ctrl.c subdeviceCtrlCmdFbFlushGpuCache_IMPL(), since 580 kern_mem_sys.c
    """
    if not args.flags & (_WRITE_BACK | _INVALIDATE):
        return
    if args.flags & _APERTURE >= _APERTURES:
        raise RmError(status.INVALID_ARGUMENT, f"flags {args.flags:#x}: no such aperture")
    if args.flags >> _MODE_SHIFT & 1 == _FULL_CACHE:
        return
    some = 0 < args.addressArraySize <= _MOST_ADDRESSES and args.memBlockSizeBytes
    raise RmError(status.GENERIC if some else status.INVALID_ARGUMENT, "a list of addresses")
