"""Memory of a GPU over msm: GEM objects at addresses that the kernel chooses.

Buffers are in the host's caches where the SMMU looks into those. All else is write-combined.
"""

from __future__ import annotations

import errno
from functools import partial
from mmap import PAGESIZE
from typing import Final, Protocol

from drivers.base.contracts import Region, World
from drivers.base.errors import MalformedInput, OutOfMemory, Unsupported, UseAfterFree
from drivers.base.oserrors import errno_of
from drivers.base.pages import PAGE_BYTES
from drivers.base.undo import Step, Undo, run_all
from drivers.gpu.iface import GpuIface, Use
from drivers.qcom.mapping import map_memory
from drivers.qcom.msm import prime
from drivers.qcom.msm.abi import (
    GEM_CLOSE,
    GEM_INFO,
    GEM_NEW,
    BoFlag,
    GemClose,
    GemInfo,
    GemNew,
    Info,
)
from drivers.qcom.msm.bind import Binds
from drivers.qcom.msm.objects import Listed, Objects

_READ_ONLY: Final = frozenset({Use.CODE, Use.CONSTANT, Use.PACKETS, Use.HOST_CODE})


class Gpu(Protocol):
    """What memory needs of its GPU."""

    world: World
    fd: int
    objects: Objects
    bytes_held: int
    forked: bool
    coherent: bool
    """Whether its SMMU looks into the host's caches."""
    binds: Binds | None
    """The process's own addresses, where it chose VM_BIND."""


class MsmMemory:
    """An object, mapped to its GPU at `gpu_va`; `region` is the host's mapping of it."""

    def __init__(
        self, gpu: Gpu, name: str, listed: Listed, nbytes: int,
        region: Region | None = None, unmap: Step | None = None,
    ) -> None:  # fmt: skip
        self.gpu, self.name, self.listed, self.nbytes = gpu, name, listed, nbytes
        self._region, self._unmap, self.gpu_va = region, unmap, listed.gpu_va
        self._freed = False
        gpu.bytes_held += nbytes

    def __repr__(self) -> str:
        return f"MsmMemory({self.name}, {self.nbytes:#x} bytes at {self.gpu_va:#x})"

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
        if self._freed:
            raise UseAfterFree(f"{self!r} was freed twice", hint="free it once")
        self._freed = True
        self.gpu.bytes_held -= self.nbytes
        steps: list[Step] = [] if self._unmap is None else [self._unmap]
        run_all([*steps, partial(_leave, self.gpu, self.listed)])


def _leave(gpu: Gpu, listed: Listed) -> None:
    """One user of an object less; the last one closes its handle."""
    with gpu.objects.lock:
        if gpu.objects.remove(listed) and not gpu.forked:
            steps: list[Step] = []
            if gpu.binds is not None:
                steps.append(partial(gpu.binds.unmap, listed.gpu_va, listed.nbytes))
            close = partial(GEM_CLOSE, gpu.world, gpu.fd, GemClose(handle=listed.handle))
            run_all([*steps, close])


def is_coherent(world: World, fd: int) -> bool:
    """Whether msm has memory that the SMMU finds in the host's caches: an object of a page says so.

    # src: Mesa tu_knl_drm_msm.cc; msm_gem.c msm_gem_new_impl(), EINVAL without has_cached_coherent
    """
    call = GemNew(nbytes=PAGE_BYTES, flags=int(BoFlag.CACHED_COHERENT))
    try:
        made = GEM_NEW(world, fd, call)
    except Unsupported as error:
        if errno_of(error) != errno.EINVAL:
            raise
        return False
    GEM_CLOSE(world, fd, GemClose(handle=made.handle))
    return True


def allocate(gpu: Gpu, nbytes: int, use: Use, name: str, *, host: bool) -> MsmMemory:
    """Memory for one use. Raises: OutOfMemory; what msm refuses."""
    nbytes = -(-nbytes // PAGESIZE) * PAGESIZE
    cached = host and use is Use.DEVICE and gpu.coherent
    flags = BoFlag.CACHED_COHERENT if cached else BoFlag.WC
    if use in _READ_ONLY:
        flags |= BoFlag.GPU_READONLY
    with Undo() as undo:
        try:
            made = GEM_NEW(gpu.world, gpu.fd, GemNew(nbytes=nbytes, flags=int(flags)))
        except OutOfMemory as error:
            error.requested, error.used = nbytes, gpu.bytes_held
            raise
        undo.add(partial(GEM_CLOSE, gpu.world, gpu.fd, GemClose(handle=made.handle)))
        where = GEM_INFO(gpu.world, gpu.fd, GemInfo(handle=made.handle, info=Info.GET_OFFSET))
        region, unmap = map_memory(gpu.world, gpu.fd, nbytes, where.value)
        undo.add(unmap)
        iova = _address(gpu, made.handle, nbytes, undo)
        listed = gpu.objects.add(made.handle, iova, nbytes, read_only=use in _READ_ONLY)
        return MsmMemory(gpu, name, listed, nbytes, region, unmap)


def _address(gpu: Gpu, handle: int, nbytes: int, undo: Undo) -> int:
    """Where an object is for the GPU: where the kernel has put it, or we do."""
    if gpu.binds is not None:
        chosen = gpu.binds.map(handle, nbytes)
        undo.add(partial(gpu.binds.unmap, chosen, nbytes))
        return chosen
    call = GemInfo(handle=handle, info=Info.GET_IOVA)
    iova: int = GEM_INFO(gpu.world, gpu.fd, call).value
    if not handle or not iova or iova % PAGE_BYTES:
        raise MalformedInput(f"msm put object {handle} at {iova:#x}")
    return iova


def import_dmabuf(gpu: Gpu, fd: int, first: int, nbytes: int) -> MsmMemory:
    """A dma-buf, of which `nbytes` from `first` on are used. Raises: BadArgument."""
    size = prime.size_of(gpu.world, fd)
    prime.check_inside(fd, size, first, nbytes)
    with gpu.objects.lock, Undo() as undo:
        handle = prime.handle_of(gpu.world, gpu.fd, fd)
        if not gpu.objects.knows(handle):
            undo.add(partial(GEM_CLOSE, gpu.world, gpu.fd, GemClose(handle=handle)))
            iova = _address(gpu, handle, size, undo)
        else:
            iova = 0
        listed = gpu.objects.add(handle, iova, size, read_only=False)
    return MsmMemory(gpu, f"dma-buf {fd}", listed, size)
