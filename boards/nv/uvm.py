"""UVM: address spaces of GPUs that user space lays out, and what may be mapped in them.

src: open-gpu-kernel-modules, kernel-open/nvidia-uvm/uvm.c, uvm_va_space.c, uvm_va_range.c,
uvm_map_external.c, uvm_user_channel.c
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

from boards.nv import status
from boards.nv.channel import Channel, VaSpace
from boards.nv.hardware import NvGpu, NvHardware
from boards.nv.memory import Memory
from boards.nv.objects import Client
from boards.nv.open_files import NvFile
from boards.nv.space import PAGE_BYTES, GpuMapping
from boards.nv.status import RmError

_INIT_FLAGS = 0xFFF
_ATTRIBUTES, _ATTRIBUTE_BYTES, _UUID_BYTES = 256, 36, 16
_DEFAULT, _RW_ATOMIC, _RW, _RO = 0, 1, 2, 3
"""src: uvm_types.h UvmGpuMappingType*"""
_CONTEXT_BYTES = 32 << 20
"""A channel's context buffers need about this much. Nothing was measured: see the notes."""
FindClient = Callable[[int, int], Client]
"""(descriptor of the control file, handle) -> client. Raises: RmError."""


@dataclass(eq=False, slots=True)
class UvmRange:
    """Addresses that a process has set aside, and what is mapped there by GPU."""

    base: int
    nbytes: int
    channel: Channel | None = None
    mapped: dict[int, list[GpuMapping]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """One past the last address."""
        return self.base + self.nbytes


class UvmSpace:
    """One open file of UVM, once it is initialised."""

    def __init__(self, hardware: NvHardware, find: FindClient) -> None:
        self._hardware, self._client = hardware, find
        self.gpus: list[NvGpu] = []
        self.spaces: dict[int, VaSpace] = {}
        """By the GPU's index."""
        self.ranges: list[UvmRange] = []
        self.peers: set[tuple[int, int]] = set()

    # GPUs

    def _gpu(self, uuid: bytes) -> NvGpu:
        found = self._hardware.gpu_by_uuid(uuid)
        if found is None or found not in self.gpus:
            raise RmError(status.INVALID_DEVICE, f"GPU {uuid.hex()} is not registered")
        return found

    def register_gpu(self, args: SimpleNamespace) -> None:
        """UVM_REGISTER_GPU. Raises: RmError GPU_UUID_NOT_FOUND, INVALID_DEVICE."""
        found = self._hardware.gpu_by_uuid(args.uuid)
        if found is None:
            raise RmError(status.GPU_UUID_NOT_FOUND, f"no GPU {args.uuid.hex()}")
        if found in self.gpus:
            raise RmError(status.INVALID_DEVICE, "the GPU is registered")
        self.gpus.append(found)
        args.numaEnabled, args.numaNodeId = 0, -1

    def unregister_gpu(self, args: SimpleNamespace) -> None:
        """UVM_UNREGISTER_GPU. Raises: RmError INVALID_DEVICE."""
        gpu = self._gpu(args.uuid)
        if gpu.index in self.spaces:
            self._leave(gpu)
        self.peers = {pair for pair in self.peers if gpu.index not in pair}
        self.gpus.remove(gpu)

    def register_vaspace(self, args: SimpleNamespace) -> None:
        """UVM_REGISTER_GPU_VASPACE. Raises: RmError."""
        gpu = self._gpu(args.uuid)
        if gpu.index in self.spaces:
            raise RmError(status.INVALID_DEVICE, "the GPU has an address space here")
        client = self._client(args.rmCtrlFd, args.hClient)
        vaspace = client.get(args.hVaSpace, VaSpace, status.INVALID_OBJECT)
        if vaspace.gpu is not gpu:
            raise RmError(status.INVALID_DEVICE, "an address space of another GPU")
        if not vaspace.external or not vaspace.faulting:
            raise RmError(status.INVALID_FLAGS, "not externally owned, or without page faults")
        if vaspace.in_uvm:
            raise RmError(status.INVALID_OBJECT, "the address space is registered")
        vaspace.in_uvm = True
        self.spaces[gpu.index] = vaspace

    def unregister_vaspace(self, args: SimpleNamespace) -> None:
        """UVM_UNREGISTER_GPU_VASPACE. Raises: RmError INVALID_DEVICE."""
        gpu = self._gpu(args.uuid)
        if gpu.index not in self.spaces:
            raise RmError(status.INVALID_DEVICE, "the GPU has no address space here")
        self._leave(gpu)

    def _leave(self, gpu: NvGpu) -> None:
        for found in list(self.ranges):
            if found.channel is not None and found.channel.gpu is gpu:
                found.channel.registered = False
                self.ranges.remove(found)
            else:
                self._unmap(found, gpu.index, found.base, found.nbytes)
        self.spaces.pop(gpu.index).in_uvm = False

    def peers_on(self, args: SimpleNamespace) -> None:
        """UVM_ENABLE_PEER_ACCESS. Raises: RmError."""
        pair = self._pair(args)
        if pair in self.peers:
            raise RmError(status.INVALID_DEVICE, "the GPUs are peers")
        if self._hardware.apart:
            raise RmError(status.NOT_SUPPORTED, "no way between the GPUs")
        self.peers.add(pair)

    def peers_off(self, args: SimpleNamespace) -> None:
        """UVM_DISABLE_PEER_ACCESS. Raises: RmError."""
        pair = self._pair(args)
        if pair not in self.peers:
            raise RmError(status.INVALID_DEVICE, "the GPUs are no peers")
        self.peers.discard(pair)

    def _pair(self, args: SimpleNamespace) -> tuple[int, int]:
        one, two = self._gpu(args.uuidA).index, self._gpu(args.uuidB).index
        if one == two:
            raise RmError(status.INVALID_DEVICE, "a GPU is not its own peer")
        return min(one, two), max(one, two)

    # Ranges

    @staticmethod
    def _check(base: int, length: int) -> None:
        if not base or not length or (base | length) % PAGE_BYTES or base + length >= 1 << 64:
            raise RmError(status.INVALID_ADDRESS, f"{base:#x}+{length:#x}")

    def _insert(self, made: UvmRange) -> None:
        if any(r.base < made.end and made.base < r.end for r in self.ranges):
            why = f"{made.base:#x}+{made.nbytes:#x} is taken"
            raise RmError(status.UVM_ADDRESS_IN_USE, why)
        self.ranges.append(made)

    def create_range(self, args: SimpleNamespace) -> None:
        """UVM_CREATE_EXTERNAL_RANGE. Raises: RmError INVALID_ADDRESS, UVM_ADDRESS_IN_USE."""
        self._check(args.base, args.length)
        self._insert(UvmRange(args.base, args.length))

    def _around(self, base: int, length: int) -> UvmRange:
        self._check(base, length)
        for found in self.ranges:
            inside = found.base <= base < found.end and base + length <= found.end
            if inside and found.channel is None:
                return found
        raise RmError(status.INVALID_ADDRESS, f"{base:#x}+{length:#x} is in no external range")

    def free(self, args: SimpleNamespace) -> None:
        """UVM_FREE: a whole range, by its base. Raises: RmError INVALID_ADDRESS."""
        found = next((r for r in self.ranges if r.base == args.base), None)
        length = getattr(args, "length", None)
        if found is None or found.channel is not None or length not in (None, found.nbytes):
            raise RmError(status.INVALID_ADDRESS, f"no range begins at {args.base:#x}")
        self._drop(found)

    def _drop(self, gone: UvmRange) -> None:
        for index in list(gone.mapped):
            self._unmap(gone, index, gone.base, gone.nbytes)
        self.ranges.remove(gone)

    # Mappings

    def map(self, args: SimpleNamespace) -> None:
        """UVM_MAP_EXTERNAL_ALLOCATION: on each GPU that is named. Raises: RmError."""
        inside = self._around(args.base, args.length)
        if not 0 < args.gpuAttributesCount <= _ATTRIBUTES:
            raise RmError(status.INVALID_ARGUMENT, f"{args.gpuAttributesCount} GPUs")
        client = self._client(args.rmCtrlFd, args.hClient)
        memory = client.get(args.hMemory, Memory, status.INVALID_OBJECT_HANDLE)
        if args.offset % PAGE_BYTES or args.offset + args.length > memory.nbytes:
            why = f"{args.offset:#x}+{args.length:#x} of {memory.nbytes:#x} bytes"
            raise RmError(status.INVALID_OFFSET, why)
        for number in range(args.gpuAttributesCount):
            at = number * _ATTRIBUTE_BYTES
            one = args.attributes[at : at + _ATTRIBUTE_BYTES]
            self._map_one(inside, args, memory, one)

    def _map_one(
        self, inside: UvmRange, args: SimpleNamespace, memory: Memory, attributes: bytes
    ) -> None:
        kind = int.from_bytes(attributes[_UUID_BYTES : _UUID_BYTES + 4], "little")
        if kind not in (_DEFAULT, _RW_ATOMIC, _RW, _RO):
            raise RmError(status.INVALID_ARGUMENT, f"mapping type {kind}")
        gpu = self._gpu(attributes[:_UUID_BYTES])
        vaspace = self.spaces.get(gpu.index)
        if vaspace is None:
            raise RmError(status.INVALID_DEVICE, "the GPU has no address space here")
        if args.base + args.length > 1 << vaspace.space.bits:
            raise RmError(status.OUT_OF_RANGE, f"{args.base:#x} exceeds the GPU's addresses")
        if all(one.index != memory.gpu_index for one in self.gpus):
            raise RmError(status.INVALID_DEVICE, "memory of a GPU that is not registered")
        away = memory.kind == "video" and memory.gpu_index != gpu.index
        pair = min(memory.gpu_index, gpu.index), max(memory.gpu_index, gpu.index)
        if away and pair not in self.peers:
            raise RmError(status.INVALID_DEVICE, "video memory of a GPU that is no peer")
        self._unmap(inside, gpu.index, args.base, args.length)
        made = GpuMapping(
            args.base, args.length, memory, args.offset,
            writable=kind != _RO and not memory.read_only, atomics=kind in (_DEFAULT, _RW_ATOMIC),
        )  # fmt: skip
        memory.hold()
        vaspace.space.map(made)
        inside.mapped.setdefault(gpu.index, []).append(made)

    def _unmap(self, inside: UvmRange, index: int, base: int, length: int) -> None:
        """Every mapping that a range touches goes as a whole, as uvm_unmap_external_in_range()."""
        vaspace, kept = self.spaces.get(index), list[GpuMapping]()
        for mapping in inside.mapped.get(index, []):
            if mapping.va < base + length and base < mapping.end:
                if vaspace is not None:
                    vaspace.space.unmap(mapping.va, 1)
                mapping.memory.drop()
            else:
                kept.append(mapping)
        inside.mapped[index] = kept

    def unmap(self, args: SimpleNamespace) -> None:
        """UVM_UNMAP_EXTERNAL. Raises: RmError."""
        inside = self._around(args.base, args.length)
        self._unmap(inside, self._gpu(args.uuid).index, args.base, args.length)

    # Channels

    def register_channel(self, args: SimpleNamespace) -> None:
        """UVM_REGISTER_CHANNEL: addresses for its context buffers. Raises: RmError."""
        gpu = self._gpu(args.uuid)
        vaspace = self.spaces.get(gpu.index)
        if vaspace is None:
            raise RmError(status.INVALID_DEVICE, "the GPU has no address space here")
        client = self._client(args.rmCtrlFd, args.hClient)
        channel = client.get(args.hChannel, Channel, status.INVALID_CHANNEL)
        if channel.vaspace is not vaspace or channel.registered:
            raise RmError(status.INVALID_CHANNEL, "in another address space, or registered")
        self._check(args.base, args.length)
        if args.length < _CONTEXT_BYTES:
            raise RmError(status.INVALID_ADDRESS, f"{args.length:#x} bytes for context buffers")
        self._insert(UvmRange(args.base, args.length, channel))
        channel.registered = True

    def unregister_channel(self, args: SimpleNamespace) -> None:
        """UVM_UNREGISTER_CHANNEL. Raises: RmError INVALID_CHANNEL."""
        for found in self.ranges:
            channel = found.channel
            if channel is not None and channel.handle == args.hChannel:
                channel.registered = False
                self.ranges.remove(found)
                return
        raise RmError(status.INVALID_CHANNEL, f"channel {args.hChannel:#x} is not registered")

    def close(self) -> None:
        """The file is closed: everything in the space goes."""
        for gpu in list(self.gpus):
            if gpu.index in self.spaces:
                self._leave(gpu)
        self.ranges.clear()
        self.gpus.clear()

    @property
    def range_count(self) -> int:
        """Ranges of addresses in it."""
        return len(self.ranges)

    def pageable(self, args: SimpleNamespace) -> None:
        """UVM_PAGEABLE_MEM_ACCESS: GPUs do not reach memory that nobody has mapped."""
        args.pageableMemAccess = 0

    def validate(self, args: SimpleNamespace) -> None:
        """UVM_VALIDATE_VA_RANGE: all of it is in ranges. Raises: RmError INVALID_ADDRESS."""
        self._check(args.base, args.length)
        self._around(args.base, args.length)


def open_space(file: NvFile, hardware: NvHardware, find: FindClient, args: SimpleNamespace) -> None:
    """UVM_INITIALIZE. Raises: RmError INVALID_ARGUMENT, INVALID_STATE."""
    if args.flags & ~_INIT_FLAGS:
        raise RmError(status.INVALID_ARGUMENT, f"flags {args.flags:#x}")
    if file.space is None:
        file.space = UvmSpace(hardware, find)
