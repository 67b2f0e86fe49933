"""Memory of a GPU over msm: GEM objects, and the list of them that each submission carries.

The kernel keeps only those in place that a submission lists, so the list has all of them. Buffers
are in the host's caches where the SMMU looks into those. All else is write-combined.
"""

from __future__ import annotations

import errno
from functools import partial
from threading import RLock
from typing import Final, Protocol

from drivers.base.contracts import Region, World
from drivers.base.errors import MalformedInput, OutOfMemory, Unsupported, UseAfterFree
from drivers.base.oserrors import errno_of
from drivers.base.pages import PAGE_BYTES
from drivers.base.undo import Step, Undo, run_all
from drivers.gpu.iface import GpuIface, Use
from drivers.qcom.mapping import map_memory
from drivers.qcom.msm.abi import (
    GEM_CLOSE,
    GEM_INFO,
    GEM_NEW,
    BoFlag,
    GemClose,
    GemInfo,
    GemNew,
    Info,
    SubmitBo,
    SubmitBoFlag,
)

_READ_ONLY: Final = frozenset({Use.CODE, Use.CONSTANT, Use.PACKETS, Use.HOST_CODE})
_FLAGS: Final = SubmitBoFlag.READ | SubmitBoFlag.NO_IMPLICIT


class Objects:
    """All objects of a process, as submissions list them. Everything happens with `lock` held."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._table: Region = world.mmap(-1, PAGE_BYTES)
        self._held: list[MsmMemory] = []
        self.changes = 0
        """Counts them: a list that was read at another count is old."""
        self.lock = RLock()

    @property
    def va(self) -> int:
        """Where the list is."""
        return self._table.cpu_va

    @property
    def count(self) -> int:
        """How many objects it has."""
        return len(self._held)

    def add(self, held: MsmMemory) -> None:
        """A new object. Raises: OutOfMemory."""
        with self.lock:
            number = len(self._held)
            if (number + 1) * SubmitBo.SIZE > self._table.nbytes:
                self._grow()
            self._store(number, held)
            self._held.append(held)
            self.changes += 1

    def _grow(self) -> None:
        old = self._table
        made = self._world.mmap(-1, 2 * old.nbytes)
        made.write(0, old.read(0, old.nbytes))
        self._table = made
        old.close()

    def _store(self, number: int, held: MsmMemory) -> None:
        flags = _FLAGS if held.read_only else _FLAGS | SubmitBoFlag.WRITE
        entry = SubmitBo(flags=int(flags), handle=held.handle, presumed=held.gpu_va)
        held.index = number
        self._table.write(number * SubmitBo.SIZE, bytes(entry.raw))

    def remove(self, held: MsmMemory) -> None:
        """One less: the last one takes its place."""
        with self.lock:
            last = self._held.pop()
            if last is not held:
                self._held[held.index] = last
                self._store(held.index, last)
            self.changes += 1

    def close(self) -> None:
        """Free the list."""
        self._table.close()


class Gpu(Protocol):
    """What memory needs of its GPU."""

    world: World
    fd: int
    objects: Objects
    bytes_held: int
    forked: bool
    coherent: bool
    """Whether its SMMU looks into the host's caches."""


class MsmMemory:
    """An object, mapped to its GPU at `gpu_va`."""

    def __init__(
        self, gpu: Gpu, name: str, handle: int, gpu_va: int, region: Region, unmap: Step
    ) -> None:
        self.gpu, self.name, self.handle, self.gpu_va = gpu, name, handle, gpu_va
        self._region, self._unmap, self.nbytes = region, unmap, region.nbytes
        self.index = 0
        """In the list of objects."""
        self.read_only = False

    def __repr__(self) -> str:
        return f"MsmMemory({self.name}, {self.nbytes:#x} bytes at {self.gpu_va:#x})"

    def view(self) -> memoryview:
        """The bytes, for the host."""
        return self._region.view()

    def map_to(self, other: GpuIface) -> None:
        """Only its own GPU has it. Raises: Unsupported."""
        owner: object = self.gpu
        if other is not owner:
            raise Unsupported(f"{self!r} cannot be mapped to another GPU", hint="copy it there")

    def free(self) -> None:
        """Unmap and free it. Raises: UseAfterFree the second time."""
        handle = self.handle
        if not handle:
            raise UseAfterFree(f"{self!r} was freed twice", hint="free it once")
        gpu, self.handle = self.gpu, 0
        gpu.bytes_held -= self.nbytes
        steps: list[Step] = [partial(gpu.objects.remove, self), self._unmap]
        if not gpu.forked:
            steps.append(partial(GEM_CLOSE, gpu.world, gpu.fd, GemClose(handle=handle)))
        run_all(steps)


def is_coherent(world: World, fd: int) -> bool:
    """Whether msm has memory of this kind: an object of a page says so.

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
    nbytes = -(-nbytes // PAGE_BYTES) * PAGE_BYTES
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
        iova = GEM_INFO(gpu.world, gpu.fd, GemInfo(handle=made.handle, info=Info.GET_IOVA)).value
        if not made.handle or not iova or iova % PAGE_BYTES:
            raise MalformedInput(f"msm put object {made.handle} at {iova:#x}")
        held = MsmMemory(gpu, name, made.handle, iova, region, unmap)
        held.read_only = use in _READ_ONLY
        gpu.objects.add(held)
        gpu.bytes_held += nbytes
    return held
