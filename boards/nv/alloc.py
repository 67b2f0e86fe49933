"""RM_ALLOC: what an object of each class is made from.

src: open-gpu-kernel-modules, rmapi/resource_list.h (parents, parameters), device.c, subdevice.c,
vaspace_api.c, mem.c, kernel_channel.c, kernel_channel_group_api.c, kernel_ctxshare.c
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace

from boards.nv import chip as c
from boards.nv import status
from boards.nv.alloc_memory import system_memory, video_memory
from boards.nv.channel import (
    ENGINE_COPY0,
    ENGINE_GRAPHICS,
    USERD_BYTES,
    Channel,
    ChannelGroup,
    ContextShare,
    EngineObject,
    VaSpace,
)
from boards.nv.hardware import NvGpu, NvHardware
from boards.nv.memory import Memory
from boards.nv.modes import ConfidentialCompute
from boards.nv.objects import Client, Object
from boards.nv.space import HOPPER_VA_BITS, VA_BITS, GpuSpace
from boards.nv.status import RmError
from boards.nv.tree import Debugger, Device, Subdevice, Usermode, VirtualRange

Make = Callable[[NvHardware, Object, SimpleNamespace], Object]
_EXTERNALLY_OWNED, _PAGE_FAULTING = 1 << 3, 1 << 6
_BIG_PAGES = (0, 64 << 10, 128 << 10)
_CHANNELS = 512
_PHYSICAL, _SPECIFIED, _PREFER_LOWER_SINCE = 3, 2, 595
"""src: nvos.h: bits of NVOS04_FLAGS_CHANNEL_TYPE, of which 0 is PHYSICAL;
NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_*"""
_MOST_ENTRIES = 1 << 20


@dataclass(frozen=True, slots=True)
class ClassRule:
    """A class: what it may be under, its parameters, and what makes it."""

    parents: tuple[type[Object], ...]
    record: str
    required: bool
    make: Make


def gpu_of(thing: Object) -> NvGpu:
    """The GPU of the device that an object is under. Raises: RmError."""
    return thing.ancestor(Device).gpu


def _device(hardware: NvHardware, parent: Object, args: SimpleNamespace) -> Object:
    index = args.deviceId if args is not None else 0
    if index >= len(hardware.gpus):
        raise RmError(status.INVALID_CLASS, f"no device {index}")
    if any(isinstance(one, Device) and one.gpu.index == index for one in parent.children.values()):
        raise RmError(status.INSUFFICIENT_RESOURCES, f"the client has device {index}")
    if hardware.gpus[index].lost:
        raise RmError(status.GPU_IS_LOST, f"device {index} has fallen off the bus")
    return Device(hardware.gpus[index])


def _subdevice(hardware: NvHardware, parent: Object, args: SimpleNamespace) -> Object:
    if args.subDeviceId:
        raise RmError(status.INVALID_CLASS, f"no subdevice {args.subDeviceId}")
    if any(isinstance(one, Subdevice) for one in parent.children.values()):
        raise RmError(status.INSUFFICIENT_RESOURCES, "the device has its subdevice")
    return Subdevice()


def _confidential(hardware: NvHardware, parent: Object, args: SimpleNamespace) -> Object:
    return ConfidentialCompute()


def _usermode(hardware: NvHardware, parent: Object, args: SimpleNamespace) -> Object:
    return Usermode(gpu_of(parent))


def _virtual(hardware: NvHardware, parent: Object, args: SimpleNamespace) -> Object:
    gpu = gpu_of(parent)
    return VirtualRange(GpuSpace(_bits(gpu)), args.limit)


def _bits(gpu: NvGpu) -> int:
    return HOPPER_VA_BITS if gpu.chip.hopper else VA_BITS


def _vaspace(hardware: NvHardware, parent: Object, args: SimpleNamespace) -> Object:
    gpu = gpu_of(parent)
    if hardware.options.mig:  # kernel_mig_manager.c kmigmgrGetInstanceRefFromDevice_IMPL()
        raise RmError(status.OBJECT_NOT_FOUND, "MIG is on, and the client has no instance")
    if args.vaBase + args.vaSize > 1 << _bits(gpu):
        why = f"{args.vaBase:#x}+{args.vaSize:#x} exceeds {_bits(gpu)} bits"
        raise RmError(status.INVALID_ARGUMENT, why)
    external = bool(args.flags & _EXTERNALLY_OWNED)
    faulting = bool(args.flags & _PAGE_FAULTING)
    if faulting and not external:
        raise RmError(status.INVALID_ARGUMENT, "page faults in a space that RM owns")
    if args.bigPageSize not in _BIG_PAGES:
        raise RmError(status.INVALID_ARGUMENT, f"big pages of {args.bigPageSize:#x} bytes")
    return VaSpace(gpu, GpuSpace(_bits(gpu)), external=external, faulting=faulting)


def _group(hardware: NvHardware, parent: Object, args: SimpleNamespace) -> Object:
    gpu = gpu_of(parent)
    last_copy = ENGINE_COPY0 + gpu.chip.copies
    if args.engineType != ENGINE_GRAPHICS and not ENGINE_COPY0 <= args.engineType < last_copy:
        raise RmError(status.INVALID_ARGUMENT, f"no engine {args.engineType} for channels")
    made = ChannelGroup(gpu, args.engineType)
    if args.hVASpace:
        made.vaspace = parent.client.get(args.hVASpace, VaSpace, status.INVALID_OBJECT)
    return made


def _share(hardware: NvHardware, parent: Object, args: SimpleNamespace) -> Object:
    """src: kernel_ctxshare.c kctxshareInitCommon_IMPL()"""
    vaspace = parent.client.get(args.hVASpace, VaSpace, status.INVALID_OBJECT)
    _check_page_directory(vaspace)
    newest = hardware.options.driver >= _PREFER_LOWER_SINCE
    if args.flags > _SPECIFIED + newest:
        raise RmError(status.INVALID_ARGUMENT, f"flags {args.flags:#x} of a context share")
    return ContextShare(vaspace)


def _check_page_directory(vaspace: VaSpace) -> None:
    if vaspace.external and not vaspace.in_uvm:
        why = "the space has no page directory: UVM_REGISTER_GPU_VASPACE comes before"
        raise RmError(status.INVALID_STATE, why)


def _channel(hardware: NvHardware, parent: Object, args: SimpleNamespace) -> Object:
    gpu, client = gpu_of(parent), parent.client
    group = parent if isinstance(parent, ChannelGroup) else None
    if group is None:
        raise RmError(status.NOT_SUPPORTED, "a channel without a group is not modelled")
    _check_channel(hardware, group, args)
    if args.hContextShare:
        share = client.get(args.hContextShare, ContextShare, status.INVALID_OBJECT_HANDLE)
        if share.parent is not group:
            raise RmError(status.INVALID_OBJECT_PARENT, "the context share is of another group")
        vaspace = share.vaspace
    elif group.vaspace is not None:
        vaspace = group.vaspace
    else:
        raise RmError(status.INVALID_ARGUMENT, "neither a context share nor an address space")
    _check_page_directory(vaspace)
    number = next((n for n in range(_CHANNELS) if _token_free(gpu, group, n)), None)
    if number is None:
        raise RmError(status.INSUFFICIENT_RESOURCES, "every channel is taken")
    channel = Channel(hardware, group, vaspace, number)
    channel.shared = bool(args.hContextShare)
    _ring(channel, args)
    _userd(channel, args, client.objects)
    if args.hObjectError:
        channel.notifier = client.get(args.hObjectError, Memory, status.INVALID_OBJECT_HANDLE)
        channel.notifier.hold()
    gpu.channels[channel.token] = channel
    return channel


def _check_channel(hardware: NvHardware, group: ChannelGroup, args: SimpleNamespace) -> None:
    """src: kernel_channel.c kchannelConstruct_IMPL(): 535 to 595"""
    if args.flags & _PHYSICAL:
        raise RmError(status.NOT_SUPPORTED, f"flags {args.flags:#x}: not a physical channel")
    if args.hVASpace:
        raise RmError(status.INVALID_ARGUMENT, "a channel of a group has the group's space")
    if any(one.shared != bool(args.hContextShare) for one in group.members()):
        raise RmError(status.INVALID_ARGUMENT, "context shares for all of a group, or for none")
    apart = group.gpu.chip.compute > c.TURING_COMPUTE_A
    if apart and args.engineType not in (0, group.engine):
        raise RmError(status.INVALID_ARGUMENT, f"engine {args.engineType} is not the group's")


def _token_free(gpu: NvGpu, group: ChannelGroup, number: int) -> bool:
    runlist = group.engine - ENGINE_GRAPHICS
    return gpu.chip.token_bit | runlist << 16 | number not in gpu.channels


def _ring(channel: Channel, args: SimpleNamespace) -> None:
    entries = args.gpFifoEntries
    if not 1 < entries <= _MOST_ENTRIES or entries & entries - 1:
        raise RmError(status.INVALID_ARGUMENT, f"a ring of {entries} entries")
    if args.gpFifoOffset % 8 or not args.gpFifoOffset:
        raise RmError(status.INVALID_ARGUMENT, f"a ring at {args.gpFifoOffset:#x}")
    channel.ring_va, channel.entries = args.gpFifoOffset, entries


def _userd(channel: Channel, args: SimpleNamespace, objects: Mapping[int, Object]) -> None:
    memory, offset = objects.get(args.hUserdMemory[0]), args.userdOffset[0]
    if not isinstance(memory, Memory):
        raise RmError(status.OBJECT_NOT_FOUND, "no memory for USERD")
    if offset % USERD_BYTES or offset + USERD_BYTES > memory.nbytes:
        raise RmError(status.INVALID_ARGUMENT, f"USERD at {offset:#x} of {memory.nbytes:#x}")
    memory.hold()
    channel.userd, channel.userd_offset = memory, offset
    memory.store(offset, bytes(USERD_BYTES))


def _engine(hardware: NvHardware, parent: Object, args: SimpleNamespace) -> Object:
    return EngineObject()


def _compute(hardware: NvHardware, parent: Object, args: SimpleNamespace) -> Object:
    if parent.ancestor(Channel).group.engine != ENGINE_GRAPHICS:
        raise RmError(status.INVALID_CLASS, "compute on a channel of a copy engine")
    return EngineObject()


def _debugger(hardware: NvHardware, parent: Object, args: SimpleNamespace) -> Object:
    """src: kernel_sm_debugger_session.c ksmdbgssnConstruct_IMPL()"""
    if args.hDebuggerClient_Obsolete:
        raise RmError(status.INVALID_ARGUMENT, "hDebuggerClient_Obsolete is obsolete")
    client = hardware.clients.get(args.hAppClient) if args.hAppClient else parent.client
    if client is None:
        raise RmError(status.INVALID_CLIENT, f"no client {args.hAppClient:#x}")
    if client.owner is not parent.client.owner:
        raise RmError(status.INSUFFICIENT_PERMISSIONS, "another process's object")
    target = client.objects.get(args.hClass3dObject)
    if target is None:
        raise RmError(status.INVALID_OBJECT_PARENT, f"no object {args.hClass3dObject:#x}")
    if target.class_number not in (gpu_of(parent).chip.compute, gpu_of(parent).chip.inline):
        raise RmError(status.INVALID_OBJECT, "no object of the graphics engine")
    if gpu_of(target) is not gpu_of(parent):
        raise RmError(status.INVALID_ARGUMENT, "an object of another GPU")
    return Debugger(target.ancestor(Channel).group)


def rules(gpu_classes: c.NvChip) -> Mapping[int, ClassRule]:
    """The classes of a GPU."""
    chip = gpu_classes
    found = {
        c.NV20_SUBDEVICE_0: ClassRule((Device,), "NV2080_ALLOC", False, _subdevice),
        c.NV01_MEMORY_LOCAL_USER: ClassRule((Device, Subdevice), "MEMORY", True, video_memory),
        c.NV01_MEMORY_SYSTEM: ClassRule((Device,), "MEMORY", True, system_memory),
        c.NV01_MEMORY_VIRTUAL: ClassRule((Device,), "MEMORY_VIRTUAL", True, _virtual),
        c.FERMI_VASPACE_A: ClassRule((Device, Subdevice), "VASPACE", True, _vaspace),
        c.KEPLER_CHANNEL_GROUP_A: ClassRule((Device,), "CHANNEL_GROUP", True, _group),
        c.FERMI_CONTEXT_SHARE_A: ClassRule((ChannelGroup,), "CTXSHARE", True, _share),
        c.GT200_DEBUGGER: ClassRule((Device,), "NV83DE_ALLOC", True, _debugger),
        chip.compute: ClassRule((Channel,), "GR_ALLOC", False, _compute),
        chip.inline: ClassRule((Channel,), "GR_ALLOC", False, _compute),
        chip.copy: ClassRule((Channel,), "NVB0B5_ALLOC", False, _engine),
    }
    for number in chip.gpfifos:
        found[number] = ClassRule((Device, ChannelGroup), "CHANNEL", True, _channel)
    for number in chip.usermodes:
        hopper = number >= c.HOPPER_USERMODE_A
        record = "HOPPER_USERMODE" if hopper else ""
        found[number] = ClassRule((Subdevice,), record, False, _usermode)
    return found


DEVICE_RULE = ClassRule((), "NV0080_ALLOC", False, _device)
CONFIDENTIAL_RULE = ClassRule((Client,), "CONFIDENTIAL_ALLOC", False, _confidential)
