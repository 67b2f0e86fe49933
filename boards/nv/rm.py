"""The resource manager's requests on objects: allocate, free, control, map.

src: open-gpu-kernel-modules, arch/nvalloc/unix/src/escape.c, rmapi/alloc_free.c, rmapi/control.c,
rmapi/mapping_cpu.c, arch/nvalloc/unix/src/osapi.c rm_create_mmap_context()
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace

from boards.nv import chip as c
from boards.nv import status
from boards.nv.alloc import CONFIDENTIAL_RULE, DEVICE_RULE, ClassRule, gpu_of, rules
from boards.nv.alloc_memory import user_memory
from boards.nv.behaviour import there
from boards.nv.controls import CONTROLS
from boards.nv.hardware import NvGpu, NvHardware
from boards.nv.memory import Memory
from boards.nv.modes import ConfidentialCompute
from boards.nv.objects import Client, Object, client_handle
from boards.nv.open_files import MmapContext, NvFile
from boards.nv.space import PAGE_BYTES, GpuMapping
from boards.nv.status import RmError
from boards.nv.tree import Device, Subdevice, Usermode, VirtualRange
from boards.nv.user import UserRecord

_ROOTS = (c.NV01_ROOT, c.NV01_ROOT_NON_PRIV, c.NV01_ROOT_CLIENT)
_USERMODE_BYTES = 0x10000
_FIXED_OFFSET = 15
_ACCESS, _PERSISTENT = 3, 1 << 4
"""src: nvos.h NVOS33_FLAGS_ACCESS 1:0, of which 3 is none, NVOS33_FLAGS_PERSISTENT 4:4"""
_DMA_READ_ONLY = 1
FindFile = Callable[[int], NvFile | None]


class Rm:
    """The requests of one process. `file_of` finds its open files."""

    def __init__(
        self, hardware: NvHardware, file_of: FindFile, opened: Callable[[NvGpu], bool]
    ) -> None:
        """`opened`: whether the process has the node of a GPU open."""
        self._hardware, self._file_of, self._opened = hardware, file_of, opened

    def client(self, file: NvFile, handle: int) -> Client:
        """Raises: RmError INVALID_CLIENT for none, and for that of another open file."""
        found = self._hardware.clients.get(handle)
        if found is None or found.owner is not file.owner:
            raise RmError(status.INVALID_CLIENT, f"no client {handle:#x} of this file")
        return found

    # Objects

    def alloc(self, file: NvFile, args: SimpleNamespace) -> None:
        """RM_ALLOC. Raises: RmError, OSError EFAULT."""
        if args.hClass in _ROOTS:
            self._new_client(file, args)
            return
        client = self.client(file, args.hRoot)
        parent = client.objects.get(args.hObjectParent)
        if parent is None:
            raise RmError(status.INVALID_OBJECT_PARENT, f"no parent {args.hObjectParent:#x}")
        rule = self._rule(parent, args.hClass)
        if args.hObjectNew:
            client.check_new(args.hObjectNew)
        made = self._make(rule, parent, args)
        if isinstance(made, Device) and not self._opened(made.gpu):
            why = "the process has not opened the GPU's node"  # osapi.c osIsGpuAccessible()
            raise RmError(status.INSUFFICIENT_PERMISSIONS, why)
        args.hObjectNew = client.add(made, parent, args.hObjectNew, args.hClass)
        self._hardware.event("RM alloc", handle=args.hObjectNew, number=args.hClass)

    def _new_client(self, file: NvFile, args: SimpleNamespace) -> None:
        handle = args.hObjectNew or client_handle(self._hardware.clients)
        if handle in self._hardware.clients:
            raise RmError(status.INSERT_DUPLICATE_NAME, f"client {handle:#x} is there")
        client = Client(handle, file.owner)
        client.class_number = c.NV01_ROOT_CLIENT
        self._hardware.clients[handle] = client
        args.hObjectNew = handle

    def _rule(self, parent: Object, number: int) -> ClassRule:
        if number == c.NV01_DEVICE_0:
            if not isinstance(parent, Client):
                raise RmError(status.INVALID_OBJECT_PARENT, "a device is under its client")
            return DEVICE_RULE
        if isinstance(parent, Client):
            if number == c.NV_CONFIDENTIAL_COMPUTE:
                return CONFIDENTIAL_RULE
            raise RmError(status.INVALID_OBJECT_PARENT, f"class {number:#x} under a client")
        rule = rules(gpu_of(parent).chip).get(number)
        if rule is None:
            known = number in {n for chip in c.CHIPS.values() for n in chip.classes}
            if not known:
                self._hardware.find("class that is not modelled", f"{number:#x}")
            raise RmError(status.INVALID_CLASS, f"class {number:#x} is not of this GPU")
        if not isinstance(parent, rule.parents):
            why = f"class {number:#x} under a {type(parent).__name__}"
            raise RmError(status.INVALID_OBJECT_PARENT, why)
        return rule

    def _make(self, rule: ClassRule, parent: Object, args: SimpleNamespace) -> Object:
        hardware = self._hardware
        if not args.pAllocParms:
            if rule.required:
                raise RmError(status.INVALID_ARGUMENT, f"{rule.record} is missing")
            zeros = SimpleNamespace()
            if rule.record:
                record = hardware.records[rule.record]
                zeros = record.load(bytes(record.nbytes))
            return rule.make(hardware, parent, zeros)
        if not rule.record:
            raise RmError(status.INVALID_ARGUMENT, "a class without parameters")
        record = hardware.records[rule.record]
        user = UserRecord(record, args.pAllocParms, args.paramsSize or record.nbytes)
        made = rule.make(hardware, parent, user.values)
        user.store()
        return made

    def free(self, file: NvFile, args: SimpleNamespace) -> None:
        """RM_FREE: the object and its children. Raises: RmError."""
        client = self.client(file, args.hRoot)
        if args.hObjectOld == client.handle:
            self.end_client(client)
            return
        found = client.find(args.hObjectOld)
        if found.parent is None or found.parent.handle != args.hObjectParent:
            self._hardware.find("free with another parent", f"{args.hObjectParent:#x}")
        client.remove(found)

    def end_client(self, client: Client) -> None:
        """A client goes with everything in it."""
        for child in reversed(list(client.children.values())):
            client.remove(child)
        del self._hardware.clients[client.handle]

    def control(self, file: NvFile, args: SimpleNamespace) -> None:
        """RM_CONTROL. Raises: RmError, OSError EFAULT."""
        client = self.client(file, args.hClient)
        target = client.find(args.hObject)
        rule = CONTROLS.get(args.cmd)
        if rule is None:
            self._hardware.find("control that is not modelled", f"{args.cmd:#x}")
            raise RmError(status.NOT_SUPPORTED, f"control {args.cmd:#x}")
        known = there("controls", args.cmd, self._hardware.options.driver)
        if not known or not isinstance(target, rule.target):
            why = f"control {args.cmd:#x} of a {type(target).__name__}"
            raise RmError(status.NOT_SUPPORTED, why)
        below = not isinstance(target, Client | ConfidentialCompute)
        if below and gpu_of(target).lost:
            raise RmError(status.GPU_IS_LOST, "the GPU has fallen off the bus")
        if bool(args.params) != bool(args.paramsSize):
            raise RmError(status.INVALID_ARGUMENT, "parameters without a size, or a size alone")
        if not rule.record:
            if args.paramsSize:
                raise RmError(status.INVALID_ARGUMENT, f"control {args.cmd:#x} takes nothing")
            rule.run(self._hardware, target, SimpleNamespace())
            return
        user = UserRecord(self._hardware.records[rule.record], args.params, args.paramsSize)
        rule.run(self._hardware, target, user.values)
        user.store()

    # Memory

    def alloc_memory(self, file: NvFile, args: SimpleNamespace) -> None:
        """RM_ALLOC_MEMORY of pages of the process. Raises: RmError."""
        if args.hClass != c.NV01_MEMORY_SYSTEM_OS_DESCRIPTOR:
            self._hardware.find("RM_ALLOC_MEMORY of a class that is not modelled",
                                f"{args.hClass:#x}")  # fmt: skip
            raise RmError(status.INVALID_CLASS, f"class {args.hClass:#x}")
        client = self.client(file, args.hRoot)
        parent = client.get(args.hObjectParent, Device, status.INVALID_OBJECT_PARENT)
        if args.hObjectNew:
            client.check_new(args.hObjectNew)
        made = user_memory(parent.gpu.index, args)
        args.hObjectNew = client.add(made, parent, args.hObjectNew, args.hClass)

    def map_memory(self, file: NvFile, args: SimpleNamespace) -> None:
        """RM_MAP_MEMORY: prepare the file `fd` to be mapped. Raises: RmError.

        src: osapi.c rm_create_mmap_context(), mapping_cpu.c serverMap_Prologue()
        """
        client = self.client(file, args.hClient)
        if client.made_by != os.getpid():
            raise RmError(status.INVALID_CLIENT, "another process made the client")
        if args.flags & _ACCESS == _ACCESS or args.flags & _PERSISTENT:
            raise RmError(status.INVALID_FLAGS, f"flags {args.flags:#x}")
        device = client.find(args.hDevice)
        if not isinstance(device, Device | Subdevice):
            raise RmError(status.INVALID_OBJECT_PARENT, f"{args.hDevice:#x} is no device")
        target = client.find(args.hMemory)
        onto = self._file_of(args.fd)
        if onto is None or not (onto.control or onto.gpu is not None):
            raise RmError(status.INVALID_ARGUMENT, f"descriptor {args.fd} is none of the driver's")
        if onto.context is not None:
            raise RmError(status.STATE_IN_USE, f"descriptor {args.fd} is for another mapping")
        if isinstance(target, Usermode):
            self._check_range(args, _USERMODE_BYTES)
            system, memory = False, None
        elif isinstance(target, Memory):
            self._check_range(args, target.nbytes)
            system, memory = target.kind != "video", target
        else:
            raise RmError(status.INVALID_OBJECT_HANDLE, f"{args.hMemory:#x} is no memory")
        if system != onto.control or (not system and onto.gpu is not gpu_of(device)):
            raise RmError(status.INVALID_ARGUMENT, f"{onto.path} does not map this memory")
        onto.context = MmapContext(memory, args.offset, args.length)
        args.pLinearAddress = target.map_for_host(self._hardware.linear_address(args.length))

    @staticmethod
    def _check_range(args: SimpleNamespace, nbytes: int) -> None:
        if not args.length or args.offset + args.length > nbytes:
            why = f"{args.offset:#x}+{args.length:#x} of {nbytes:#x} bytes"
            raise RmError(status.INVALID_LIMIT, why)

    def unmap_memory(self, file: NvFile, args: SimpleNamespace) -> None:
        """RM_UNMAP_MEMORY, by what RM_MAP_MEMORY wrote. Raises: RmError.

        src: mapping_cpu.c serverUnmap_Prologue(), rs_resource.c refFindCpuMappingWithFilter()
        """
        client = self.client(file, args.hClient)
        target, device = client.find(args.hMemory), client.find(args.hDevice)
        if not isinstance(device, Device | Subdevice):
            raise RmError(status.INVALID_OBJECT_PARENT, f"{args.hDevice:#x} is no device")
        if args.pLinearAddress not in target.host_mappings:
            raise RmError(status.OBJECT_NOT_FOUND, f"nothing at {args.pLinearAddress:#x}")
        target.host_mappings.discard(args.pLinearAddress)

    def map_dma(self, file: NvFile, args: SimpleNamespace) -> None:
        """RM_MAP_MEMORY_DMA into an NV01_MEMORY_VIRTUAL. Raises: RmError."""
        client = self.client(file, args.hClient)
        where = client.get(args.hDma, VirtualRange, status.INVALID_OBJECT_HANDLE)
        memory = client.get(args.hMemory, Memory, status.INVALID_OBJECT_HANDLE)
        self._check_range(args, memory.nbytes)
        if not args.flags >> _FIXED_OFFSET & 1:
            self._hardware.find("RM_MAP_MEMORY_DMA that chooses an address", "not modelled")
            raise RmError(status.NOT_SUPPORTED, "give the address: DMA_OFFSET_FIXED")
        va, length = args.dmaOffset, args.length
        if va % PAGE_BYTES or va + length > where.limit + 1:
            raise RmError(status.INVALID_ADDRESS, f"{va:#x}+{length:#x}")
        if where.space.overlaps(va, length):
            raise RmError(status.INVALID_ADDRESS, f"{va:#x} is mapped")
        writable = args.flags & 3 != _DMA_READ_ONLY and not memory.read_only
        where.space.map(GpuMapping(va, length, memory, args.offset, writable=writable))

    def unmap_dma(self, file: NvFile, args: SimpleNamespace) -> None:
        """RM_UNMAP_MEMORY_DMA. Raises: RmError INVALID_ADDRESS."""
        client = self.client(file, args.hClient)
        where = client.get(args.hDma, VirtualRange, status.INVALID_OBJECT_HANDLE)
        if not where.space.unmap(args.dmaOffset, max(getattr(args, "size", 1), 1)):
            raise RmError(status.INVALID_ADDRESS, f"nothing at {args.dmaOffset:#x}")
