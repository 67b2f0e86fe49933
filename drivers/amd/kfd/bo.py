"""Buffer objects: memory of the kernel driver, at an address that host and GPUs share.

A range of addresses is reserved first, with an unmapped page on both sides; the memory is
allocated for a place in it, mapped there for the host where the host needs it, and then mapped into
the GPU's page tables. Each step is undone when a later one fails.
"""

from __future__ import annotations

from typing import Final

from drivers.amd.chips import PAGE_BYTES
from drivers.amd.kfd.memory import (
    ALLOC_MEMORY_OF_GPU,
    FREE_MEMORY_OF_GPU,
    MAP_MEMORY_TO_GPU,
    UNMAP_MEMORY_FROM_GPU,
    AllocFlag,
    AllocMemoryOfGpuArgs,
    FreeMemoryOfGpuArgs,
    MapMemoryToGpuArgs,
    UnmapMemoryFromGpuArgs,
)
from drivers.amd.kfd.session import MAX_IDS, Session
from drivers.base.contracts import Region, World
from drivers.base.errors import (
    BadArgument,
    DeviceError,
    MalformedInput,
    OutOfMemory,
    Unsupported,
    UseAfterFree,
)
from drivers.base.undo import Undo, run_all
from drivers.gpu.iface import GpuIface, Use

HUGE_BYTES: Final = 2 << 20
"""Memory of this size is placed at a multiple of it, so that one page-table entry covers it."""
GUARD_BYTES: Final = PAGE_BYTES
_HANDLE_GPU_SHIFT: Final = 32  # src: kfd_chardev.c, MAKE_HANDLE
_ID_BYTES: Final = 4


_CONSTANT = AllocFlag.VRAM | AllocFlag.NO_SUBSTITUTE
_DEVICE = _CONSTANT | AllocFlag.WRITABLE
_GTT = AllocFlag.GTT | AllocFlag.NO_SUBSTITUTE | AllocFlag.COHERENT | AllocFlag.UNCACHED
_FLAGS: Final = {
    Use.CONSTANT: _CONSTANT,
    Use.DEVICE: _DEVICE,
    Use.CODE: _DEVICE | AllocFlag.EXECUTABLE,
    Use.HOST_CODE: _GTT | AllocFlag.EXECUTABLE,
    # Whether packet processors ask for the right to execute is not documented; known clients give
    # it. # src: ROCR amd_aql_queue.cpp, ring and pm4_ib_buf_: AllocateExecutable
    Use.PACKETS: _GTT | AllocFlag.WRITABLE | AllocFlag.EXECUTABLE,
    Use.SHARED: _GTT | AllocFlag.WRITABLE,
}
_HOST: Final = AllocFlag.USERPTR | AllocFlag.WRITABLE | AllocFlag.COHERENT | AllocFlag.UNCACHED
"""Memory that the process has already."""


class Gpu:
    """One GPU of a session: what an ioctl about its memory needs."""

    __slots__ = ("bytes_held", "gpu_id", "handles", "render_fd", "session", "world")

    def __init__(self, session: Session, gpu_id: int, render_fd: int) -> None:
        self.session, self.world = session, session.world
        self.gpu_id, self.render_fd = gpu_id, render_fd
        self.handles = self.bytes_held = 0
        """Buffer objects that are allocated and not freed; what a leak test compares."""


class Bo:
    """Allocated and mapped to its GPU. `region` is the host's mapping, where there is one."""

    __slots__ = ("_space", "gpu", "gpu_va", "gpus", "handle", "name", "nbytes", "region")

    def __init__(
        self, gpu: Gpu, name: str, handle: int, gpu_va: int, nbytes: int,
        region: Region | None, space: Region | None,
    ) -> None:  # fmt: skip
        self.gpu, self.name, self.handle, self.gpu_va, self.nbytes = (
            gpu, name, handle, gpu_va, nbytes,
        )  # fmt: skip
        self.region, self._space = region, space
        self.gpus = [gpu.gpu_id]

    def __repr__(self) -> str:
        return f"Bo({self.name}, {self.nbytes:#x} bytes at {self.gpu_va:#x})"

    def view(self) -> memoryview:
        """The bytes, for the host. Raises: Unsupported when the host has no mapping."""
        if self.region is None:
            raise Unsupported(f"{self!r} is not mapped for the host", hint="copy it out")
        return self.region.view()

    def map_to(self, other: GpuIface) -> None:
        """Also into the page tables of another GPU of the session, at the same address."""
        if not isinstance(other, Gpu):
            raise Unsupported(f"{self!r} cannot be mapped to {other!r}", hint="copy it there")
        self.map_to_gpu(other.gpu_id)

    def map_to_gpu(self, gpu_id: int) -> None:
        """The same, of the GPU with this number."""
        if gpu_id not in self.gpus:
            map_to_gpus(self.gpu, self.handle, [gpu_id])
            self.gpus.append(gpu_id)

    def free(self) -> None:
        """Unmap everywhere, give the memory and its addresses back. Raises: UseAfterFree."""
        if not self.handle:
            raise UseAfterFree(f"{self!r} was freed twice", hint="free it once")
        if self.gpu.session.forked:  # the memory is the parent's
            self.drop()
            return
        handle, self.handle = self.handle, 0
        region, space = self._host_parts()
        run_all(
            [
                lambda: _unmap(self.gpu, handle, self.gpus),
                region.close if region is not None else _nothing,
                lambda: free_at(self.gpu, handle, self.nbytes, space),
            ]
        )

    def drop(self) -> None:
        """Let go of the host's side alone; the kernel keeps the memory while the process lives."""
        if self.handle:
            self.handle = 0
            self.gpu.handles -= 1
            self.gpu.bytes_held -= self.nbytes
            run_all(part.close for part in self._host_parts() if part is not None)

    def _host_parts(self) -> tuple[Region | None, Region | None]:
        """The mapping and the reservation, which are this object's no more."""
        region, self.region = self.region, None
        space, self._space = self._space, None
        return region, space


def _nothing() -> None:
    """A step of a buffer object that has no such part."""


def allocate(
    gpu: Gpu, nbytes: int, use: Use, name: str, *, host: bool = False, gtt: bool = False
) -> Bo:
    """Memory for one use, mapped to its GPU, and for the host where `host` says so.

    `gtt`: system memory instead of the GPU's own, cached by the GPU as that would be.
    Raises: OutOfMemory; MalformedInput for an impossible answer; what the kernel refuses.
    """
    nbytes = -(-nbytes // PAGE_BYTES) * PAGE_BYTES
    world = gpu.world
    with Undo() as undo:
        space, at = reserve(world, nbytes)
        undo.add(space.close)
        flags = _FLAGS[use]
        if gtt:
            flags = flags & ~AllocFlag.VRAM | AllocFlag.GTT
        args = _alloc(gpu, space.cpu_va + at, nbytes, flags, 0)
        handle = args.handle
        undo.hand_over(lambda: free_at(gpu, handle, nbytes, space))
        region = None
        if host:
            region = world.mmap(gpu.render_fd, nbytes, args.mmap_offset, within=space, at=at)
            undo.add(region.close)
        map_to_gpus(gpu, handle, [gpu.gpu_id])
    return Bo(gpu, name, handle, args.va_addr, nbytes, region, space)


def reserve(world: World, nbytes: int) -> tuple[Region, int]:
    """Addresses for memory with an unmapped page on both sides, and where in them it begins."""
    align = HUGE_BYTES if nbytes >= HUGE_BYTES else PAGE_BYTES
    space = world.reserve(nbytes + align + 2 * GUARD_BYTES)
    return space, GUARD_BYTES + -(space.cpu_va + GUARD_BYTES) % align


def wrap(gpu: Gpu, cpu_va: int, nbytes: int, name: str) -> Bo:
    """Whole pages of this process's own memory, at the address where they are; each page once.

    When the kernel moves one of them, it stops all queues of the process for a while.
    # src: amdgpu_amdkfd_gpuvm.c amdgpu_amdkfd_evict_userptr(); amdgpu_vm.c amdgpu_vm_bo_map()
    """
    if cpu_va % PAGE_BYTES or nbytes % PAGE_BYTES or not nbytes:
        raise BadArgument(
            f"{nbytes:#x} bytes at {cpu_va:#x} are not whole pages", hint="copy them instead"
        )
    with Undo() as undo:
        handle = _alloc(gpu, cpu_va, nbytes, _HOST, cpu_va).handle
        undo.add(lambda: _free(gpu, handle, nbytes))
        map_to_gpus(gpu, handle, [gpu.gpu_id])
    return Bo(gpu, name, handle, cpu_va, nbytes, None, None)


def _alloc(
    gpu: Gpu, gpu_va: int, nbytes: int, flags: AllocFlag, user_va: int
) -> AllocMemoryOfGpuArgs:
    gpu.session.check_process()
    args = AllocMemoryOfGpuArgs(
        va_addr=gpu_va, size=nbytes, gpu_id=gpu.gpu_id, flags=int(flags), mmap_offset=user_va
    )
    try:
        ALLOC_MEMORY_OF_GPU(gpu.world, gpu.session.fd, args)
    except OutOfMemory as error:
        raise OutOfMemory(
            f"the kernel has no {nbytes:,} bytes of {_heap(flags)} for GPU {gpu.gpu_id:#x}",
            requested=nbytes, used=gpu.bytes_held, cached=0, limit=0,
            hint="free buffers or close other programs, then try again",
        ) from (error.__cause__ or error)  # fmt: skip
    if handle_gpu(args.handle) != gpu.gpu_id or args.va_addr != gpu_va:
        raise MalformedInput(
            f"ALLOC_MEMORY_OF_GPU answered {args!r}", hint="report it with `uname -r`"
        )
    gpu.handles += 1
    gpu.bytes_held += nbytes
    return args


def handle_gpu(handle: int) -> int:
    """The gpu_id in a handle."""
    return handle >> _HANDLE_GPU_SHIFT


def _heap(flags: AllocFlag) -> str:
    if flags & AllocFlag.VRAM:
        return "VRAM"
    return "GTT memory" if flags & AllocFlag.GTT else "pinned host memory"


def _free(gpu: Gpu, handle: int, nbytes: int) -> None:
    FREE_MEMORY_OF_GPU(gpu.world, gpu.session.fd, FreeMemoryOfGpuArgs(handle=handle))
    gpu.handles -= 1
    gpu.bytes_held -= nbytes


def free_at(gpu: Gpu, handle: int, nbytes: int, space: Region | None) -> None:
    """Free memory, then its addresses; where the kernel keeps the one, the other stay reserved."""
    try:
        _free(gpu, handle, nbytes)
    except DeviceError:
        if space is not None:
            gpu.session.stranded.append(space)
        raise
    if space is not None:
        space.close()


def _write_ids(gpu: Gpu, gpu_ids: list[int]) -> int:
    """Put the ids where the kernel reads them; the array's address. With the session's lock."""
    if not 0 < len(gpu_ids) <= MAX_IDS:
        raise BadArgument(f"{len(gpu_ids)} GPUs", hint=f"map to 1 ... {MAX_IDS}")
    for number, gpu_id in enumerate(gpu_ids):
        gpu.session.ids.write32(number * _ID_BYTES, gpu_id)
    return gpu.session.ids.cpu_va


def map_to_gpus(gpu: Gpu, handle: int, gpu_ids: list[int]) -> None:
    """Into the page tables of all of the GPUs, or of none."""
    count = len(gpu_ids)
    with gpu.session.lock, Undo() as undo:
        args = MapMemoryToGpuArgs(
            handle=handle, device_ids_array_ptr=_write_ids(gpu, gpu_ids), n_devices=count
        )
        undo.add(lambda: _unmap(gpu, handle, gpu_ids[: args.n_success]))
        MAP_MEMORY_TO_GPU(gpu.world, gpu.session.fd, args)
        if args.n_success != count:
            reported, args.n_success = args.n_success, count  # no error: all may be mapped
            raise MalformedInput(f"MAP_MEMORY_TO_GPU mapped {reported} of {count}")


def _unmap(gpu: Gpu, handle: int, gpu_ids: list[int]) -> None:
    count = len(gpu_ids)
    if not count:
        return
    with gpu.session.lock:
        args = UnmapMemoryFromGpuArgs(
            handle=handle, device_ids_array_ptr=_write_ids(gpu, gpu_ids), n_devices=count
        )
        UNMAP_MEMORY_FROM_GPU(gpu.world, gpu.session.fd, args)
        if args.n_success != count:
            raise MalformedInput(f"UNMAP_MEMORY_FROM_GPU unmapped {args.n_success} of {count}")
