"""Buffer objects of an open render node.

src: Linux 6.12, drivers/gpu/drm/msm/msm_gem.c, msm_drv.c
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

from boards.machine import host
from boards.qcom.hardware import AdrenoHardware
from boards.qcom.memory import PAGE_BYTES, Memory
from boards.qcom.msm import abi
from boards.qcom.space import Mapping, Space

VA_START = 1 << 32
"""# src: adreno_gpu.h ADRENO_VM_START; before, a6xx_create_private_address_space()"""
_SIZE_MASK = (1 << 32) - 1
_FIRST_OFFSET = 1 << 32
_METADATA_MOST = 128
Fence = Callable[[], bool]


@dataclass(slots=True, eq=False)
class Bo:
    """One buffer object, in one open file."""

    handle: int
    memory: Memory
    flags: int
    offset: int
    """For mmap."""
    iova: int = 0
    name: bytes = b""
    metadata: bytes = b""
    readers: dict[int, Fence] = field(default_factory=dict)
    """By queue: its last submission, before which its others end.
    # src: Linux 6.12, drivers/dma-buf/dma-resv.c, dma_resv_add_fence"""
    writers: dict[int, Fence] = field(default_factory=dict)

    def waits(self, *, write: bool) -> list[Fence]:
        """What who reads (or writes) it has to wait for."""
        self.readers = {queue: fence for queue, fence in self.readers.items() if not fence()}
        self.writers = {queue: fence for queue, fence in self.writers.items() if not fence()}
        return [*self.writers.values(), *(self.readers.values() if write else ())]

    def busy(self, *, write: bool) -> bool:
        """Whether who reads (or writes) it has to wait for submissions."""
        return bool(self.waits(write=write))

    def mapping(self) -> Mapping:
        """As the SMMU has it."""
        writable = not self.flags & abi.BO_READ_ONLY
        return Mapping(self.iova, self.memory.nbytes, self.memory, writable=writable)


class Gem:
    """Handles of one open file."""

    def __init__(self, hardware: AdrenoHardware, va_bytes: int) -> None:
        self._hardware, self._va_end = hardware, VA_START + va_bytes
        self.by_handle: dict[int, Bo] = {}
        self.space = Space()
        """Addresses that were given out."""
        self._next, self._offset = 1, _FIRST_OFFSET

    def get(self, handle: int, number: int = errno.ENOENT) -> Bo:
        """By handle. Raises: OSError, with `number`."""
        found = self.by_handle.get(handle)
        if found is None:
            raise OSError(number, f"no buffer object {handle}")
        return found

    def new(self, size: int, flags: int) -> Bo:
        """GEM_NEW. Raises: OSError EINVAL, ENOMEM."""
        rules = self._hardware.rules
        known = abi.BO_FLAGS | (abi.BO_NO_SHARE if "no_share" in rules else 0)
        if "size_cut" in rules:
            size &= _SIZE_MASK
        if flags & ~known or not 0 < size < 1 << 40:
            raise OSError(errno.EINVAL, f"{size:#x} bytes with flags {flags:#x}")
        if flags & abi.BO_UNCACHED:
            flags = flags & ~abi.BO_UNCACHED | abi.BO_WC
        mode = flags & abi.BO_CACHE_MASK
        plain = mode in (abi.BO_CACHED, abi.BO_WC)
        if not plain and not (mode == abi.BO_CACHED_COHERENT and self._hardware.coherent):
            raise OSError(errno.EINVAL, f"cache mode {mode:#x}")
        memory = self._hardware.memory.new(
            f"buffer object {self._next}", host.pages(size), cached=mode == abi.BO_CACHED
        )
        return self.add(memory, flags)

    def add(self, memory: Memory, flags: int) -> Bo:
        """A handle of memory."""
        made = Bo(self._next, memory, flags, self._offset)
        self._next += 1
        self._offset += memory.nbytes
        self.by_handle[made.handle] = made
        return made

    def address(self, bo: Bo) -> int:
        """Its address, which is found when it is first asked for. Raises: OSError ENOSPC."""
        if not bo.iova:
            found = self.space.room(VA_START, self._va_end, bo.memory.nbytes, PAGE_BYTES)
            if found is None:
                raise OSError(errno.ENOSPC, "no GPU addresses are left")
            self._place(bo, found)
        return bo.iova

    def set_address(self, bo: Bo, va: int) -> None:
        """SET_IOVA; 0 takes it away. Raises: OSError EINVAL, EBUSY."""
        if bo.busy(write=True):
            raise OSError(errno.EBUSY, f"buffer object {bo.handle} is in use")
        if va and (va % PAGE_BYTES or not VA_START <= va <= self._va_end - bo.memory.nbytes):
            raise OSError(errno.EINVAL, f"address {va:#x}")
        if va == bo.iova:
            return
        if va and not self.space.free(va, bo.memory.nbytes):
            raise OSError(errno.EBUSY, f"something is at {va:#x}")
        self._unplace(bo)
        if va:
            self._place(bo, va)

    def _place(self, bo: Bo, va: int) -> None:
        bo.iova = va
        self.space.map(bo.mapping())

    def _unplace(self, bo: Bo) -> None:
        if bo.iova:
            mapping = self.space.unmap(bo.iova)
            bo.iova = 0
            if mapping is not None:
                self._hardware.memory.drop(mapping.memory)

    def at_offset(self, offset: int) -> Bo:
        """What mmap means. Raises: OSError EINVAL."""
        for bo in self.by_handle.values():
            if bo.offset == offset:
                return bo
        raise OSError(errno.EINVAL, f"no buffer object at offset {offset:#x}")

    def close(self, bo: Bo) -> None:
        """GEM_CLOSE: the pages stay while they are mapped or used."""
        self.by_handle.pop(bo.handle, None)
        self._unplace(bo)
        self._hardware.memory.drop(bo.memory)

    def end(self) -> None:
        """The open file is closed."""
        for bo in list(self.by_handle.values()):
            self.close(bo)
