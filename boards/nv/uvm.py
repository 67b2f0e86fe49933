"""UVM: address spaces of GPUs that user space lays out, and what may be mapped in them.

src: open-gpu-kernel-modules, kernel-open/nvidia-uvm/uvm.c, uvm_va_space.c, uvm_va_range.c,
uvm_map_external.c, uvm_user_channel.c, src/nvidia/src/kernel/rmapi/nv_gpu_ops.c: 535.288.01 to
595.45.04 where nothing else is said. No release looks at rmCtrlFd.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

from boards.nv import status
from boards.nv.channel import ENGINE_GRAPHICS, Channel, VaSpace
from boards.nv.hardware import NvGpu, NvHardware
from boards.nv.memory import Memory
from boards.nv.objects import Client
from boards.nv.open_files import NvFile
from boards.nv.process_memory import MULTI_PROCESS_SHARING, MmState, ProcessMemory
from boards.nv.space import PAGE_BYTES, GpuMapping
from boards.nv.status import RmError

_INIT_FLAGS = 0x3
"""src: uvm_types.h UVM_INIT_FLAGS_MASK"""
_ATTRIBUTE_BYTES, _UUID_BYTES = 36, 16
_DEFAULT, _RW_ATOMIC, _RW, _RO = 0, 1, 2, 3
"""src: uvm_types.h UvmGpuMappingType*"""
_CACHING, _BLOCK_LINEAR, _BITS, _COMPRESSIONS = range(3), 1, (0, 1, 2, 4, 5, 6), 2
"""src: uvm_types.h UvmGpuCachingType*, UvmGpuFormat*, UvmGpuCompressionType*"""
_CONTEXT_BYTES, _CONTEXT_ALIGN = 32 << 20, 64 << 10
"""A graphics channel's context buffers need about this much. Nothing was measured."""
_CHANNEL_VA, _HOPPER_CHANNEL_VA = 1 << 40, 1 << 57
"""src: uvm_turing.c ... uvm_ada.c and uvm_hopper.c, uvm_blackwell.c: max_channel_va"""
_MAPPED_VA, _HOPPER_MAPPED_VA = 1 << 47, 1 << 56
"""The lower half of canonical addresses on x86-64. src: uvm_gpu.c uvm_gpu_can_address()"""
FindClient = Callable[[int], Client]
"""Handle -> client of this process. Raises: RmError INVALID_CLIENT, INSUFFICIENT_PERMISSIONS."""


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

    def __init__(self, hardware: NvHardware, find: FindClient, flags: int) -> None:
        self._hardware, self._client, self.flags = hardware, find, flags
        tied = hardware.options.va_space_mm and not flags & MULTI_PROCESS_SHARING
        self.memory = ProcessMemory(enabled=tied)
        self._stopped = False
        """No channel of it runs any more, and none can be registered."""
        self.gpus: list[NvGpu] = []
        self.spaces: dict[int, VaSpace] = {}
        """By the GPU's index."""
        self.ranges: list[UvmRange] = []
        self._channels: list[Channel] = []
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
        self._check_alive()
        self.gpus.append(found)
        args.numaEnabled, args.numaNodeId = 0, -1

    def unregister_gpu(self, args: SimpleNamespace) -> None:
        """UVM_UNREGISTER_GPU. Raises: RmError INVALID_DEVICE."""
        gpu = self._gpu(args.uuid)
        if gpu.index in self.spaces:
            self._leave(gpu)
        self.peers = {pair for pair in self.peers if gpu.index not in pair}
        self.gpus.remove(gpu)

    def _check_alive(self) -> None:
        if self.memory.state is MmState.RELEASED:
            raise RmError(status.PAGE_TABLE_NOT_AVAIL, "the process's memory is gone")

    def register_vaspace(self, args: SimpleNamespace) -> None:
        """UVM_REGISTER_GPU_VASPACE. Raises: RmError.

        src: uvm_va_space.c uvm_va_space_register_gpu_va_space(), nvGpuOpsDupAddressSpace(),
        gpu_vaspace.c gvaspaceExternalRootDirCommit_IMPL()
        """
        gpu = self._gpu(args.uuid)
        if not self.memory.usable:
            raise RmError(status.PAGE_TABLE_NOT_AVAIL, "UVM_MM_INITIALIZE comes before")
        found = self._client(args.hClient).find(args.hVaSpace)
        if not isinstance(found, VaSpace):
            raise RmError(status.INVALID_OBJECT, f"{args.hVaSpace:#x} is no address space")
        if found.gpu is not gpu:
            raise RmError(status.OTHER_DEVICE_FOUND, "an address space of another GPU")
        if not found.external:
            raise RmError(status.INVALID_FLAGS, "an address space that RM owns")
        if gpu.index in self.spaces:
            raise RmError(status.INVALID_DEVICE, "the GPU has an address space here")
        if found.in_uvm:
            raise RmError(status.INVALID_STATE, "the address space has a page directory")
        found.in_uvm = True
        self.spaces[gpu.index] = found

    def unregister_vaspace(self, args: SimpleNamespace) -> None:
        """UVM_UNREGISTER_GPU_VASPACE. Raises: RmError INVALID_DEVICE."""
        gpu = self._gpu(args.uuid)
        if gpu.index not in self.spaces:
            raise RmError(status.INVALID_DEVICE, "the GPU has no address space here")
        self._leave(gpu)

    def _leave(self, gpu: NvGpu) -> None:
        self._stop([channel for channel in self._channels if channel.gpu is gpu])
        for found in self.ranges:
            self._unmap(found, gpu.index, found.base, found.nbytes)
        self.spaces.pop(gpu.index).in_uvm = False

    def _stop(self, channels: list[Channel]) -> None:
        for channel in channels:
            channel.stop()
            self._channels.remove(channel)
            self.ranges = [one for one in self.ranges if one.channel is not channel]

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
        """UVM_MAP_EXTERNAL_ALLOCATION: on each GPU that is named. Raises: RmError.

        After a failure the GPUs before the one that failed have nothing mapped there.
        src: uvm_map_external.c uvm_map_external_allocation()
        """
        inside = self._around(args.base, args.length)
        if not 0 < args.gpuAttributesCount <= len(args.attributes) // _ATTRIBUTE_BYTES:
            raise RmError(status.INVALID_ARGUMENT, f"{args.gpuAttributesCount} GPUs")
        done: list[int] = []
        try:
            for number in range(args.gpuAttributesCount):
                at = number * _ATTRIBUTE_BYTES
                wanted = _attributes(args.attributes[at : at + _ATTRIBUTE_BYTES])
                gpu = self._gpu(args.attributes[at : at + _UUID_BYTES])
                self._map_one(inside, args, gpu, wanted)
                done.append(gpu.index)
        except RmError:
            for index in done:
                self._unmap(inside, index, args.base, args.length)
            raise

    def _map_one(self, inside: UvmRange, args: SimpleNamespace, gpu: NvGpu, kind: int) -> None:
        """src: uvm_map_external_allocation_on_gpu(): what was mapped there goes first."""
        vaspace = self.spaces.get(gpu.index)
        if vaspace is None:
            raise RmError(status.INVALID_DEVICE, "the GPU has no address space here")
        if args.base + args.length > (_HOPPER_MAPPED_VA if gpu.chip.hopper else _MAPPED_VA):
            raise RmError(status.OUT_OF_RANGE, f"{args.base:#x} exceeds the GPU's addresses")
        self._unmap(inside, gpu.index, args.base, args.length)
        client = self._client(args.hClient)
        memory = client.get(args.hMemory, Memory, status.INVALID_OBJECT_HANDLE)
        self._check_owner(gpu, memory)
        if args.offset % PAGE_BYTES:
            raise RmError(status.INVALID_ADDRESS, f"offset {args.offset:#x} is no page")
        if args.offset + args.length > memory.nbytes:
            why = f"{args.offset:#x}+{args.length:#x} of {memory.nbytes:#x} bytes"
            raise RmError(status.INVALID_OFFSET, why)
        made = GpuMapping(
            args.base, args.length, memory, args.offset,
            writable=kind != _RO and not memory.read_only, atomics=kind in (_DEFAULT, _RW_ATOMIC),
        )  # fmt: skip
        memory.hold()
        vaspace.space.map(made)
        inside.mapped.setdefault(gpu.index, []).append(made)

    def _check_owner(self, gpu: NvGpu, memory: Memory) -> None:
        """src: uvm_map_external.c set_ext_gpu_map_location()"""
        if all(one.index != memory.gpu_index for one in self.gpus):
            raise RmError(status.INVALID_DEVICE, "memory of a GPU that is not registered")
        away = memory.kind == "video" and memory.gpu_index != gpu.index
        pair = min(memory.gpu_index, gpu.index), max(memory.gpu_index, gpu.index)
        if away and pair not in self.peers:
            raise RmError(status.INVALID_DEVICE, "video memory of a GPU that is no peer")

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
        """UVM_REGISTER_CHANNEL: addresses for its context buffers. Raises: RmError.

        A channel of a copy engine has none: base and length say nothing then.
        src: uvm_user_channel.c uvm_register_channel(), nv_gpu_ops.c nvGpuOpsVerifyChannel()
        """
        gpu = self._gpu(args.uuid)
        vaspace = self.spaces.get(gpu.index)
        if vaspace is None:
            raise RmError(status.INVALID_DEVICE, "the GPU has no address space here")
        client = self._client(args.hClient)
        channel = client.get(args.hChannel, Channel, status.INVALID_OBJECT_HANDLE)
        if channel.vaspace is not vaspace:
            other = channel.gpu is not gpu
            number = status.OTHER_DEVICE_FOUND if other else status.INVALID_CHANNEL
            raise RmError(number, "a channel in another address space")
        graphics = channel.engine == ENGINE_GRAPHICS
        if graphics:
            self._check(args.base, args.length)
        if self._stopped:
            raise RmError(status.INVALID_STATE, "the space's channels were stopped")
        if any(one.handle == args.hChannel and one.client is client for one in self._channels):
            raise RmError(status.INVALID_CHANNEL, "the channel is registered")
        if graphics:
            self._give_context(channel, args.base, args.base + args.length)
        self._channels.append(channel)
        channel.registered = True

    def _give_context(self, channel: Channel, start: int, end: int) -> None:
        """Addresses between two for the context: create_va_range(), the first that are free."""
        if end > (_HOPPER_CHANNEL_VA if channel.chip.hopper else _CHANNEL_VA):
            raise RmError(status.OUT_OF_RANGE, f"{end:#x} is too high for a context")
        at = -(-start // _CONTEXT_ALIGN) * _CONTEXT_ALIGN
        for taken in sorted(self.ranges, key=lambda one: one.base):
            if at + _CONTEXT_BYTES <= taken.base:
                break
            at = max(at, -(-taken.end // _CONTEXT_ALIGN) * _CONTEXT_ALIGN)
        if at + _CONTEXT_BYTES > end:
            why = f"no room for context buffers in {start:#x} ... {end:#x}"
            raise RmError(status.INVALID_ADDRESS, why)
        self.ranges.append(UvmRange(at, _CONTEXT_BYTES, channel))

    def unregister_channel(self, args: SimpleNamespace) -> None:
        """UVM_UNREGISTER_CHANNEL: stops it. Raises: RmError INVALID_CHANNEL."""
        for channel in self._channels:
            if (channel.client.handle, channel.handle) == (args.hClient, args.hChannel):
                self._stop([channel])
                return
        raise RmError(status.INVALID_CHANNEL, f"channel {args.hChannel:#x} is not registered")

    def shut_down(self) -> None:
        """The file of UVM_MM_INITIALIZE is closed: no channel runs, none is registered again."""
        self._stop(list(self._channels))
        self._stopped, self.memory.state = True, MmState.RELEASED

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
        """UVM_PAGEABLE_MEM_ACCESS: this machine has neither HMM nor ATS."""
        args.pageableMemAccess = 0

    def validate(self, args: SimpleNamespace) -> None:
        """UVM_VALIDATE_VA_RANGE: there is just this range. Raises: RmError INVALID_ADDRESS."""
        if all((one.base, one.nbytes) != (args.base, args.length) for one in self.ranges):
            raise RmError(status.INVALID_ADDRESS, f"no range is {args.base:#x}+{args.length:#x}")


def _attributes(one: bytes) -> int:
    """The type of a mapping, when everything else is allowed, too. Raises: RmError."""
    kind, caching, form, bits, compression = struct.unpack_from("<5I", one, _UUID_BYTES)
    known = kind in (_DEFAULT, _RW_ATOMIC, _RW, _RO) and caching in _CACHING
    if not known or form > _BLOCK_LINEAR or bits not in _BITS or bool(form) != bool(bits):
        raise RmError(status.INVALID_ARGUMENT, f"mapping type {kind}, {caching}, {form}, {bits}")
    if compression >= _COMPRESSIONS:
        raise RmError(status.INVALID_ARGUMENT, f"compression {compression}")
    return int(kind)


def open_space(file: NvFile, hardware: NvHardware, find: FindClient, args: SimpleNamespace) -> None:
    """UVM_INITIALIZE. Raises: RmError INVALID_ARGUMENT.

    src: uvm.c uvm_api_initialize(): a second one is fine with the same flags
    """
    if file.mm_of is not None:
        raise RmError(status.INVALID_ARGUMENT, "this file is for UVM_MM_INITIALIZE")
    if isinstance(file.space, UvmSpace):
        if args.flags != file.space.flags:
            raise RmError(status.INVALID_ARGUMENT, f"initialised with {file.space.flags:#x}")
        return
    if args.flags & ~_INIT_FLAGS:
        raise RmError(status.INVALID_ARGUMENT, f"flags {args.flags:#x}")
    file.space = UvmSpace(hardware, find, args.flags)
