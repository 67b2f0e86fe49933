"""Memory of a GPU over NVK: video memory, system memory, and pages of this process.

Each piece is an RM object, mapped into the GPU's address space by UVM, and for the host, where it
needs that, by an mmap of a file of its own.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Final, NamedTuple, Protocol

from drivers.base.contracts import Region, World
from drivers.base.errors import BadArgument, OutOfMemory, Unsupported, UseAfterFree
from drivers.base.ioctl import Struct
from drivers.base.pages import PAGE_BYTES
from drivers.base.undo import Step, Undo, run_all
from drivers.gpu.iface import GpuIface, Use
from drivers.nv.nvk.addresses import BIG_BYTES, HUGE_BYTES
from drivers.nv.nvk.allocations import (
    CACHING_DEFAULT,
    FORMAT_PITCH,
    AllocFlag,
    Attr,
    Attr2,
    MemoryType,
    OsDescriptorFlag,
    RmClass,
)
from drivers.nv.nvk.client import RmClient
from drivers.nv.nvk.escapes import (
    REGISTER_FD,
    RM_MAP_MEMORY,
    RM_UNMAP_MEMORY,
    RegisterFd,
    RmMapMemory,
    RmUnmapMemory,
)
from drivers.nv.nvk.status import check_status
from drivers.nv.nvk.uvm_space import UvmSpace

CTL_PATH: Final = "/dev/nvidiactl"
_SYSTEM: Final = frozenset({Use.PACKETS, Use.SHARED, Use.HOST_CODE})
"""What the host writes while the GPU reads: cached, snooped memory of the machine. Stores to it and
to the doorbell stay in order; write-combined video memory would need a fence between them."""
_FLAGS: Final = (
    AllocFlag.MAP_NOT_REQUIRED | AllocFlag.MEMORY_HANDLE_PROVIDED | AllocFlag.ALIGNMENT_FORCE
    | AllocFlag.IGNORE_BANK_PLACEMENT
)  # fmt: skip


class Gpu(Protocol):
    """What memory needs of its GPU."""

    world: World
    client: RmClient
    space: UvmSpace
    device: int
    """The handle of its RM device."""
    path: str
    """Its node, /dev/nvidia0."""
    handles: int
    bytes_held: int


class HostMapping(NamedTuple):
    """An RM object as the host sees it."""

    region: Region
    linear: int
    """How RM knows the mapping."""
    space: Region | None
    """The addresses that it was placed in; None for registers."""


class NvMemory:
    """A piece of memory, mapped to its GPU at `gpu_va`."""

    def __init__(
        self, gpu: Gpu, name: str, handle: int, gpu_va: int, nbytes: int,
        host: HostMapping | None, *, video: bool = False,
    ) -> None:  # fmt: skip
        self.gpu, self.name, self.handle = gpu, name, handle
        self.gpu_va, self.nbytes, self._host, self._video = gpu_va, nbytes, host, video
        self._others: list[UvmSpace] = []
        """Of other GPUs that it was mapped to."""
        gpu.handles += 1
        gpu.bytes_held += nbytes

    def __repr__(self) -> str:
        return f"NvMemory({self.name}, {self.nbytes:#x} bytes at {self.gpu_va:#x})"

    def view(self) -> memoryview:
        """The bytes, for the host. Raises: Unsupported when the host has no mapping."""
        if self._host is None:
            raise Unsupported(f"{self!r} is not mapped for the host", hint="copy it out")
        return self._host.region.view()

    def map_to(self, other: GpuIface) -> None:
        """Also to another GPU of this process, at the same address.

        Raises: Unsupported where the GPUs do not reach each other; what UVM refuses.
        """
        mine, space = self.gpu.space, getattr(other, "space", None)
        if not isinstance(space, UvmSpace) or space.addresses is not mine.addresses:
            raise Unsupported(f"{self!r} cannot be mapped to another GPU", hint="copy it there")
        if space is not mine:
            space.adopt(mine, self.gpu_va, self.nbytes, self.handle, video=self._video)
            self._others.append(space)

    def free(self) -> None:
        """Unmap everywhere and free it. Raises: UseAfterFree the second time."""
        handle, self.handle = self.handle, 0
        if not handle:
            raise UseAfterFree(f"{self!r} was freed twice", hint="free it once")
        gpu, host = self.gpu, self._host
        self._host = None
        gpu.handles -= 1
        gpu.bytes_held -= self.nbytes
        space = gpu.space
        steps = [
            *(partial(one.abandon, self.gpu_va, self.nbytes) for one in self._others),
            partial(space.unmap, self.gpu_va, self.nbytes),
            partial(unmap_host, gpu, handle, host),
            partial(gpu.client.free, handle, gpu.device),
        ]
        run_all(steps)


def allocate(gpu: Gpu, nbytes: int, use: Use, name: str, *, host: bool = False) -> NvMemory:
    """Memory for one use. Raises: OutOfMemory; what RM and UVM refuse."""
    system = use in _SYSTEM
    align = PAGE_BYTES if system else HUGE_BYTES if nbytes >= HUGE_BYTES else BIG_BYTES
    nbytes = -(-nbytes // align) * align
    kind = RmClass.NV01_MEMORY_SYSTEM if system else RmClass.NV01_MEMORY_LOCAL_USER
    with Undo() as undo:
        va = gpu.space.take(nbytes)
        undo.add(lambda: gpu.space.give(va, nbytes))
        try:
            handle = gpu.client.alloc(name, gpu.device, kind, _wanted(gpu, nbytes, align, system))
        except OutOfMemory as error:
            error.used = gpu.bytes_held
            raise
        undo.add(partial(gpu.client.free, handle, gpu.device))
        seen = None
        if host:
            seen = map_host(gpu, handle, nbytes, CTL_PATH if system else gpu.path)
            undo.add(partial(unmap_host, gpu, handle, seen))
        gpu.space.map(va, nbytes, handle, write=use is not Use.CONSTANT)
    return NvMemory(gpu, name, handle, va, nbytes, seen, video=not system)


def _wanted(gpu: Gpu, nbytes: int, align: int, system: bool) -> Struct:
    """What RM is asked for.

    Video memory below 2 MiB has the page size that RM chooses: 64 KiB, which is how RM gives it out
    anyway. UVM maps it in pages of that size where address and length allow it.
    # src: src/nvidia/src/kernel/gpu/mem_mgr/mem_mgr.c memmgrDeterminePageSize_IMPL() (DEFAULT, a
    # src: client's memory), kernel-open/nvidia-uvm/uvm_map_external.c (mapping_page_size):
    # src: 535.288.01 and 595.45.04
    """
    flags, attr2 = _FLAGS, Attr2.ZBC_PREFER_NO_ZBC
    attr = Attr.PAGE_SIZE_4KB if system else Attr(0)
    if align == HUGE_BYTES:
        attr, attr2 = Attr.PAGE_SIZE_HUGE, attr2 | Attr2.PAGE_SIZE_HUGE_2MB
    if system:
        attr |= Attr.LOCATION_PCI | Attr.COHERENCY_CACHED | Attr.PHYSICALITY_NONCONTIGUOUS
        attr2 |= Attr2.GPU_CACHEABLE_NO
    else:
        attr |= Attr.PHYSICALITY_NONCONTIGUOUS
        attr2 |= Attr2.GPU_CACHEABLE_YES
        flags |= AllocFlag.PERSISTENT_VIDMEM
    return gpu.client.abi.memory(
        owner=gpu.client.handle, type=int(MemoryType.IMAGE), flags=int(flags), attr=int(attr),
        attr2=int(attr2), format=FORMAT_PITCH, size=nbytes, alignment=align, limit=nbytes - 1,
    )  # fmt: skip


def map_host(gpu: Gpu, handle: int, nbytes: int, path: str, *, memory: bool = True) -> HostMapping:
    """An RM object for the host: a file of its own is mapped, and closed again.

    Memory is placed in a reservation: that is how recordings tell it from registers.
    """
    world = gpu.world
    with Undo() as undo:
        space = world.reserve(nbytes) if memory else None
        if space is not None:
            undo.add(space.close)
        return _map_host(gpu, handle, nbytes, path, space)


def _map_host(gpu: Gpu, handle: int, nbytes: int, path: str, space: Region | None) -> HostMapping:
    world = gpu.world
    fd = world.open(path, os.O_RDWR)
    with Undo() as undo:
        undo.add(partial(world.close, fd))
        if path != CTL_PATH:
            REGISTER_FD(world, fd, RegisterFd(ctl_fd=gpu.client.ctl_fd))
        call = RmMapMemory(
            h_client=gpu.client.handle, h_device=gpu.device, h_memory=handle, length=nbytes,
            flags=CACHING_DEFAULT, fd=fd,
        )  # fmt: skip
        RM_MAP_MEMORY(world, gpu.client.ctl_fd, call)
        check_status(call.status, f"mapping {nbytes:#x} bytes for the host", nbytes)
        region = world.mmap(fd, nbytes, within=space)
        undo.hand_over(region.close)
        world.close(fd)
    return HostMapping(region, call.p_linear_address, space)


def unmap_host(gpu: Gpu, handle: int, host: HostMapping | None) -> None:
    """Undo `map_host`. In a forked child only its own mapping goes."""
    if host is None:
        return
    steps: list[Step] = [host.region.close]
    if host.space is not None:
        steps.append(host.space.close)
    if not gpu.client.forked:
        steps.append(partial(_unmap, gpu, handle, host.linear))
    run_all(steps)


def _unmap(gpu: Gpu, handle: int, linear: int) -> None:
    call = RmUnmapMemory(
        h_client=gpu.client.handle, h_device=gpu.device, h_memory=handle, p_linear_address=linear
    )
    RM_UNMAP_MEMORY(gpu.world, gpu.client.ctl_fd, call)
    check_status(call.status, f"unmapping object {handle:#x}")


def wrap(gpu: Gpu, cpu_va: int, nbytes: int, name: str) -> NvMemory:
    """Whole pages of this process, pinned. Raises: BadArgument, what RM refuses."""
    if cpu_va % PAGE_BYTES or nbytes % PAGE_BYTES or not nbytes:
        raise BadArgument(
            f"{nbytes:#x} bytes at {cpu_va:#x} are not whole pages", hint="copy them instead"
        )
    flags = (
        OsDescriptorFlag.PHYSICALITY_NONCONTIGUOUS | OsDescriptorFlag.COHERENCY_CACHED
        | OsDescriptorFlag.MAPPING_NO_MAP
    )  # fmt: skip
    with Undo() as undo:
        va = gpu.space.take(nbytes)
        undo.add(lambda: gpu.space.give(va, nbytes))
        handle = gpu.client.alloc_memory(name, gpu.device, cpu_va, nbytes, flags)
        undo.add(partial(gpu.client.free, handle, gpu.device))
        gpu.space.map(va, nbytes, handle)
    return NvMemory(gpu, name, handle, va, nbytes, None)
