"""Memory of a GPU over KGSL: objects that host and GPU see at one address.

Buffers are in the host's caches: where the SMMU does not look into those, each copy of the host's
cleans or invalidates what it touches, and no other program sees them. All else is write-combined.
In a recording KGSL chooses the GPU's addresses: those of the process differ in a replay.
"""

from __future__ import annotations

from functools import partial
from typing import Final, Protocol

from drivers.base.contracts import Region, World
from drivers.base.errors import MalformedInput, OutOfMemory, Unsupported, UseAfterFree
from drivers.base.order import is_in_order
from drivers.base.pages import PAGE_BYTES
from drivers.base.undo import Step, Undo, run_all
from drivers.gpu.iface import GpuIface, Use
from drivers.qcom.kgsl.abi import (
    ALIGN_SHIFT,
    OBJECT_ALLOC,
    OBJECT_FREE,
    OBJECT_INFO,
    PAGE_SHIFT,
    CacheOp,
    MemFlag,
    ObjectAlloc,
    ObjectFree,
    ObjectInfo,
)
from drivers.qcom.mapping import map_memory

_PAGES: Final = (1 << 12, 1 << 14, 1 << 16)
"""Of kernels. # src: arch/arm64/Kconfig"""
MOST_BYTES: Final = 0xFFFF_FFFF
"""Of an object. # src: msm-4.9 to 6.x, kgsl.c gpumem_alloc_entry(), EINVAL above UINT_MAX"""
_READ_ONLY: Final = frozenset({Use.CODE, Use.CONSTANT, Use.PACKETS, Use.HOST_CODE})


class Gpu(Protocol):
    """What memory needs of its GPU."""

    world: World
    fd: int
    objects: int
    bytes_held: int
    forked: bool
    page_bytes: int
    """Of the kernel."""
    coherent: bool
    """Whether its SMMU looks into the host's caches."""

    def sync(self, number: int, off: int, nbytes: int, op: CacheOp) -> None:
        """Clean or invalidate the host's caches of a part of an object."""


class KgslMemory:
    """An object, mapped to its GPU at `gpu_va`."""

    def __init__(
        self, gpu: Gpu, name: str, number: int, gpu_va: int, nbytes: int,
        region: Region | None = None, unmap: Step | None = None,
    ) -> None:  # fmt: skip
        self.gpu, self.name, self.number, self.gpu_va = gpu, name, number, gpu_va
        self._region, self._unmap, self.nbytes = region, unmap, nbytes
        gpu.objects += 1
        gpu.bytes_held += self.nbytes

    def __repr__(self) -> str:
        return f"KgslMemory({self.name}, {self.nbytes:#x} bytes at {self.gpu_va:#x})"

    def view(self) -> memoryview:
        """The bytes, for the host. Raises: Unsupported for memory of others."""
        if self._region is None:
            raise Unsupported(f"{self!r} is not mapped for the host", hint="copy it by a kernel")
        return self._region.view()

    def map_to(self, other: GpuIface) -> None:
        """Only its own GPU has it. Raises: Unsupported."""
        owner: object = self.gpu
        if other is not owner:
            raise Unsupported(f"{self!r} cannot be mapped to another GPU", hint="copy it there")

    def free(self) -> None:
        """Unmap and free it. Raises: UseAfterFree the second time."""
        number, self.number = self.number, 0
        if not number:
            raise UseAfterFree(f"{self!r} was freed twice", hint="free it once")
        gpu = self.gpu
        gpu.objects -= 1
        gpu.bytes_held -= self.nbytes
        steps: list[Step] = [] if self._unmap is None else [self._unmap]
        if not gpu.forked:
            steps.append(partial(OBJECT_FREE, gpu.world, gpu.fd, ObjectFree(id=number)))
        run_all(steps)


class CachedMemory(KgslMemory):
    """An object in the host's caches, into which the GPU does not look."""

    def clean(self, off: int, nbytes: int) -> None:
        """The host's stores are in memory."""
        self.gpu.sync(self.number, off, nbytes, CacheOp.TO_GPU)

    def refresh(self, off: int, nbytes: int) -> None:
        """The host sees what the GPU wrote, and no store of the host's is lost."""
        self.gpu.sync(self.number, off, nbytes, CacheOp.TO_GPU | CacheOp.FROM_GPU)


def look(world: World, fd: int) -> tuple[bool, int]:
    """(whether the SMMU looks into the host's caches, bytes of the kernel's pages).

    KGSL keeps a flag of an object for the first, and makes it of whole pages.
    # src: msm-4.9 to 6.x, kgsl_sharedmem.c: PAGE_ALIGN() of the size. Raises: MalformedInput.
    """
    wanted = MemFlag.WRITEBACK | MemFlag.IOCOHERENT
    made = OBJECT_ALLOC(world, fd, ObjectAlloc(nbytes=PAGE_BYTES, flags=int(wanted)))
    OBJECT_FREE(world, fd, ObjectFree(id=made.id))
    if made.nbytes not in _PAGES:
        raise MalformedInput(f"KGSL made {made.nbytes} bytes of {PAGE_BYTES}", hint="report it")
    return bool(made.flags & MemFlag.IOCOHERENT), made.nbytes


def _flags(gpu: Gpu, use: Use, *, cached: bool) -> MemFlag:
    flags = MemFlag.WRITECOMBINE if not cached else MemFlag.WRITEBACK
    if cached and gpu.coherent:
        flags |= MemFlag.IOCOHERENT
    if not is_in_order():
        flags |= MemFlag.USE_CPU_MAP
    return flags | MemFlag.GPUREADONLY if use in _READ_ONLY else flags


def allocate(gpu: Gpu, nbytes: int, use: Use, name: str, *, host: bool) -> KgslMemory:
    """Memory for one use; buffers that the host sees are cached.

    Raises: OutOfMemory; what KGSL refuses.
    """
    nbytes = -(-nbytes // gpu.page_bytes) * gpu.page_bytes
    if nbytes > MOST_BYTES:
        raise OutOfMemory(
            f"KGSL makes objects of less than 4 GiB, not of {nbytes:,} bytes", requested=nbytes,
            used=gpu.bytes_held, cached=0, limit=MOST_BYTES, hint="use smaller buffers",
        )  # fmt: skip
    cached = host and use is Use.DEVICE
    flags = _flags(gpu, use, cached=cached) | PAGE_SHIFT << ALIGN_SHIFT
    with Undo() as undo:
        try:
            made = OBJECT_ALLOC(gpu.world, gpu.fd, ObjectAlloc(nbytes=nbytes, flags=int(flags)))
        except OutOfMemory as error:
            error.requested, error.used = nbytes, gpu.bytes_held
            raise
        undo.add(partial(OBJECT_FREE, gpu.world, gpu.fd, ObjectFree(id=made.id)))
        if not made.id or made.mmapsize < nbytes:
            raise MalformedInput(f"KGSL made object {made.id} of {made.mmapsize:#x} bytes")
        region, unmap = map_memory(gpu.world, gpu.fd, nbytes, made.id * gpu.page_bytes)
        undo.add(unmap)
        info = OBJECT_INFO(gpu.world, gpu.fd, ObjectInfo(id=made.id))
        _check(info, flags, region.cpu_va)
    kind = CachedMemory if cached and not gpu.coherent else KgslMemory
    return kind(gpu, name, made.id, info.gpuaddr, nbytes, region, unmap)


def _check(info: ObjectInfo, flags: int, cpu_va: int) -> None:
    """Raises: MalformedInput for an address that cannot be."""
    if flags & MemFlag.USE_CPU_MAP and info.gpuaddr != cpu_va:
        raise MalformedInput(
            f"KGSL has object {info.id} at {info.gpuaddr:#x}, the host at {cpu_va:#x}",
            hint="this kernel ignores KGSL_MEMFLAGS_USE_CPU_MAP; report it with `uname -r`",
        )
    if not info.gpuaddr or info.gpuaddr % PAGE_BYTES:
        raise MalformedInput(f"KGSL has object {info.id} at {info.gpuaddr:#x}")
