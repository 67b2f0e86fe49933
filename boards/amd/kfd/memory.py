"""Memory of a KFD process: allocated, mapped to GPUs, unmapped, freed.

src: amdkfd/kfd_chardev.c, amdgpu/amdgpu_amdkfd_gpuvm.c
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from types import SimpleNamespace

from boards.amd.hardware import Hardware
from boards.amd.kfd import types as k
from boards.amd.kfd.device import PAGE_SHIFT, SLICE_BYTES, Buffer, Device, Mapping
from boards.amd.memory import pages
from boards.machine import host
from boards.machine.extents import Piece
from boards.machine.pool import Pool

_PAGE = 1 << PAGE_SHIFT
_HANDLE_SHIFT = 32
_ESTIMATE_SHIFT, _AVAILABLE_ALIGN = 14, 1 << 21
"""src: amdgpu_amdkfd_gpuvm.c ESTIMATE_PT_SIZE (memory >> 14), VRAM_AVAILABILITY_ALIGN"""
_MAX_DEVICES = 1 << 16
_CONTIGUOUS = 1 << 23
FindDevice = Callable[[int], Device]


class Memory:
    """The memory ioctls of one process; `device` finds its part on a GPU or raises EINVAL."""

    def __init__(self, hardware: Hardware, device: FindDevice) -> None:
        self._hardware, self._device = hardware, device
        self.buffers: list[Buffer] = []
        """Everything that is not freed, or freed and still mapped by the host."""
        self.large_bar = hardware.options.large_bar
        """Whether GPUs reach each other's VRAM."""
        self.page_handle = 0
        self.allocating: Callable[[int], None] = lambda nbytes: None
        """The fault panel's say before an allocation."""

    def alloc(self, args: SimpleNamespace) -> None:
        """ALLOC_MEMORY_OF_GPU. Raises: OSError EINVAL, ENODEV, ENOMEM, EFAULT."""
        if not args.size:
            raise OSError(errno.EINVAL, "size 0")
        device = self._device(args.gpu_id)
        visible = args.flags & k.PUBLIC and args.flags & k.VRAM
        if visible and not self._hardware.options.large_bar:
            raise OSError(errno.EINVAL, "VRAM that the host sees needs a large BAR")
        device.bound()
        if args.flags & k.DOORBELL and args.size != SLICE_BYTES:
            raise OSError(errno.EINVAL, "doorbells come as a whole")
        if args.flags & k.MMIO_REMAP and not args.flags & k.DOORBELL and args.size != _PAGE:
            raise OSError(errno.EINVAL, "the remapped registers are one page")
        doubled = bool(args.flags & k.AQL_QUEUE_MEM)
        nbytes = host.pages(args.size >> doubled)
        if not nbytes:
            raise OSError(errno.EINVAL, "too small")
        self.allocating(nbytes)
        buffer = self._take(device, args, nbytes)
        buffer.doubled = doubled
        device.handles[buffer.handle] = buffer
        self.buffers.append(buffer)
        args.handle = args.gpu_id << _HANDLE_SHIFT | buffer.handle
        args.mmap_offset = buffer.offset
        if args.flags & k.MMIO_REMAP:
            args.mmap_offset = k.MMAP_MMIO << k.MMAP_TYPE_SHIFT | args.gpu_id << k.MMAP_GPU_SHIFT

    def _take(self, device: Device, args: SimpleNamespace, nbytes: int) -> Buffer:
        gpu, bus = device.gpu, 0
        pool: Pool | None = None
        pieces: list[Piece] = []
        align = pages.HUGE_BYTES if nbytes >= pages.HUGE_BYTES else _PAGE
        if args.flags & k.VRAM and not gpu.prefers_gtt:
            whole = bool(args.flags & _CONTIGUOUS)
            kind, pool, bus = "VRAM", gpu.vram, gpu.bar
            pieces = gpu.memory.take(nbytes, align, whole=whole)
        elif args.flags & (k.GTT | k.VRAM):
            kind, pool, bus = "GTT", self._hardware.gtt, self._hardware.gtt_bus
            pieces = self._hardware.gtt_memory.take(nbytes, align)
        elif args.flags & k.USERPTR:
            user = self._user_pages(args.mmap_offset, nbytes)
            kind, pool = "USERPTR", user
            bus, pieces = self._hardware.bus.add(user), [Piece(0, nbytes)]
        elif args.flags & (k.DOORBELL | k.MMIO_REMAP):
            kind = "DOORBELL" if args.flags & k.DOORBELL else "MMIO"
        else:
            raise OSError(errno.EINVAL, "flags name no kind of memory")
        handle = next(n for n in range(len(device.handles) + 1) if n not in device.handles)
        offset = self._hardware.mmap_offset(nbytes)
        return Buffer(
            handle, device, args.va_addr, nbytes, args.flags, kind, pool, pieces, bus, offset
        )

    @staticmethod
    def _user_pages(va: int, nbytes: int) -> Pool:
        """Memory of the process itself. Raises: OSError EINVAL, EFAULT, EPERM.

        src: init_user_pages(): without READONLY, so that even a buffer that the GPU may not write
        to needs pages that the process may; mm/hmm.c hmm_vma_fault() refuses others.
        """
        if not va or va & _PAGE - 1:
            raise OSError(errno.EINVAL, f"{va:#x} is no page of the process")
        host.user_bytes(va, nbytes)
        if not host.writable(va, nbytes):
            raise OSError(errno.EPERM, f"the process cannot write to {va:#x}+{nbytes:#x}")
        return Pool(f"process memory at {va:#x}", va, nbytes)

    def find(self, handle: int, number: int = errno.EINVAL) -> Buffer:
        """A buffer by its handle. Raises: OSError EINVAL for the GPU, `number` for the handle."""
        device = self._device(handle >> _HANDLE_SHIFT)
        buffer = device.handles.get(handle & 0xFFFFFFFF)
        if buffer is None:
            raise OSError(number, f"no buffer {handle:#x}")
        return buffer

    def free(self, args: SimpleNamespace) -> None:
        """FREE_MEMORY_OF_GPU. Raises: OSError EPERM, EINVAL, EBUSY."""
        if self.page_handle and args.handle == self.page_handle:
            raise OSError(errno.EPERM, "the event page stays until the process ends")
        buffer = self.find(args.handle)
        if buffer.on:
            raise OSError(errno.EBUSY, f"{buffer} is still mapped to a GPU")
        self._drop(buffer)

    def _drop(self, buffer: Buffer) -> None:
        del buffer.device.handles[buffer.handle]
        buffer.freed = True
        if buffer.kind == "USERPTR":
            self._hardware.bus.remove(buffer.bus)
        self.settle(buffer)

    def settle(self, buffer: Buffer) -> None:
        """Give a freed buffer's pages back once they are not mapped any more."""
        if not buffer.freed or buffer.maps or buffer not in self.buffers:
            return
        self.buffers.remove(buffer)
        if buffer.source is not None:
            buffer.source.drop()
        elif buffer.kind == "VRAM":
            buffer.device.gpu.give(buffer.pieces)
        elif buffer.kind == "GTT":
            for piece in buffer.pieces:
                self._hardware.gtt.forget(piece.start, piece.nbytes)
            self._hardware.gtt_memory.give(buffer.pieces)

    def map(self, args: SimpleNamespace) -> None:
        """MAP_MEMORY_TO_GPU. Raises: OSError; n_success says how far it came."""
        ids = _device_ids(args)
        self._device(args.handle >> _HANDLE_SHIFT).bound()
        buffer = self.find(args.handle, errno.ENOMEM)
        for number in range(args.n_success, args.n_devices):
            device = self._device(ids[number])
            device.bound()
            if device not in buffer.on:
                self._map_on(buffer, device)
            args.n_success = number + 1
        for device in map(self._device, ids):
            device.flush()

    def _map_on(self, buffer: Buffer, device: Device) -> None:
        table, count = device.bound(), 2 if buffer.doubled else 1
        for i in range(count):
            device.check_range(buffer.va + i * buffer.nbytes, buffer.nbytes)
        local = buffer.kind == "VRAM" and buffer.home is device.gpu
        flags = _pte_flags(buffer) | (0 if local else pages.SYSTEM)
        snooped = buffer.kind != "VRAM" or device.gpu.chip.family == "gfx9"
        flags |= pages.SNOOPED if snooped else 0
        base = 0 if local else buffer.bus
        mtype = _mtype(device.gpu.chip.family, buffer, local)
        buffer.on.append(device)
        try:
            for i in range(count):
                va = buffer.va + i * buffer.nbytes
                first = va >> PAGE_SHIFT
                device.mappings.append(Mapping(buffer, first, buffer.nbytes >> PAGE_SHIFT))
                for piece in buffer.pieces:
                    table.map(va, base + piece.start, piece.nbytes, flags, mtype)
                    va += piece.nbytes
        except OSError:  # no VRAM for another table
            self._unmap_from(buffer, device)
            raise
        self._hardware.event(
            "map", gpu=device.gpu.index, va=buffer.va, nbytes=buffer.nbytes, kind=buffer.kind
        )

    def unmap(self, args: SimpleNamespace) -> None:
        """UNMAP_MEMORY_FROM_GPU. Raises: OSError EINVAL, ENOMEM, EBUSY while a queue needs it."""
        ids = _device_ids(args)
        buffer = self.find(args.handle, errno.ENOMEM)
        for number in range(args.n_success, args.n_devices):
            device = self._device(ids[number])
            if device not in buffer.on:
                raise OSError(errno.EINVAL, f"{buffer} is not mapped there")
            self._unmap_from(buffer, device)
            args.n_success = number + 1
        for device in map(self._device, ids):
            device.flush()

    def _unmap_from(self, buffer: Buffer, device: Device, *, forced: bool = False) -> None:
        mine = [mapping for mapping in device.mappings if mapping.buffer is buffer]
        if any(mapping.queues for mapping in mine) and not forced:
            raise OSError(errno.EBUSY, f"a queue needs {buffer}")
        for mapping in mine:
            if buffer.pieces:
                table = device.bound()
                table.unmap(mapping.first << PAGE_SHIFT, mapping.count << PAGE_SHIFT)
            device.mappings.remove(mapping)
        buffer.on.remove(device)
        self._hardware.event(
            "unmap", gpu=device.gpu.index, va=buffer.va, nbytes=buffer.nbytes, kind=buffer.kind
        )

    def available(self, args: SimpleNamespace) -> None:
        """AVAILABLE_MEMORY. src: amdgpu_amdkfd_get_available_memory()"""
        device = self._device(args.gpu_id)
        if device.gpu.prefers_gtt:
            args.available = self._hardware.gtt_memory.free_bytes & -_PAGE
            return
        memory = device.gpu.memory
        spare = memory.free_bytes - (self._hardware.options.vram_bytes >> _ESTIMATE_SHIFT)
        args.available = max(0, spare & -_AVAILABLE_ALIGN)

    def release_all(self) -> None:
        """The process is gone: everything is unmapped and freed."""
        for buffer in list(self.buffers):
            for device in list(buffer.on):
                self._unmap_from(buffer, device, forced=True)
            if not buffer.freed:
                self._drop(buffer)


def _device_ids(args: SimpleNamespace) -> list[int]:
    """The array of gpu_ids. Raises: OSError EINVAL, EFAULT."""
    if not args.n_devices or args.n_success > args.n_devices:
        raise OSError(errno.EINVAL, f"{args.n_success} of {args.n_devices} devices")
    if args.n_devices > _MAX_DEVICES:
        raise OSError(errno.ENOMEM, "too many devices")
    data = host.user_bytes(args.device_ids_array_ptr, 4 * args.n_devices)
    return list(struct.unpack(f"<{args.n_devices}I", data))


def _pte_flags(buffer: Buffer) -> int:
    """src: get_pte_flags()"""
    flags = pages.READABLE
    flags |= pages.WRITEABLE if buffer.flags & k.WRITABLE else 0
    return flags | (pages.EXECUTABLE if buffer.flags & k.EXECUTABLE else 0)


def _mtype(family: str, buffer: Buffer, local: bool) -> int:
    """How caches treat a buffer.

    src: gmc_v9_0_get_coherence_flags() for 9.4.3 on a dGPU, gmc_v10_0/v11_0/v12_0_get_vm_pte()
    """
    asked = buffer.flags & (k.UNCACHED | k.COHERENT | k.EXT_COHERENT)
    if family == "gfx9":
        if buffer.flags & (k.UNCACHED | k.EXT_COHERENT) or buffer.kind != "VRAM":
            return pages.MTYPE_UC
        return pages.MTYPE_RW if local else pages.MTYPE_NC
    if family == "gfx12":
        asked &= k.UNCACHED
    return pages.MTYPE_UC if asked else pages.MTYPE_NC
