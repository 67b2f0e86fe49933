"""GPU memory objects of a KGSL process.

src: kgsl.c of Qualcomm's downstream kernels (gpumem_alloc_entry, get_mmap_entry, kgsl_mmap,
_kgsl_gpumem_sync_cache), as far as its errno and its checks are known
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass

from boards.machine import host
from boards.qcom.hardware import AdrenoHardware
from boards.qcom.kgsl import abi
from boards.qcom.memory import Memory
from boards.qcom.space import Mapping, Space

_VA_LOW, _VA_HIGH = 0x5_0000_0000, 0xC_0000_0000
"""Where objects are put whose CPU address is not theirs. # src: kgsl_iommu.h, VA_BASE64, END64"""
_KEPT = 0xFFFF00 | abi.MEM_READ_ONLY | 3 << abi.CACHE_SHIFT | abi.MEM_CPU_MAP | abi.MEM_IO_COHERENT
_MOST_SYNCED = (1 << 32) - 1


@dataclass(slots=True, eq=False)
class GpuObject:
    """One object of a process."""

    id: int
    memory: Memory
    flags: int
    nbytes: int
    """Whole pages, as it comes back."""
    imported: bool = False
    """Memory that is not KGSL's own."""
    gpu_va: int = 0
    """0: not mapped to the GPU yet, which mmap does."""
    cpu_va: int = 0
    maps: int = 0
    """Mappings of the process."""
    freed: bool = False

    @property
    def by_cpu_address(self) -> bool:
        """Whether the GPU's address is the process's."""
        return bool(self.flags & abi.MEM_CPU_MAP)


class Objects:
    """By id, and in the GPU's address space."""

    def __init__(self, hardware: AdrenoHardware) -> None:
        self._hardware = hardware
        self.space = Space(hardware.forgive)
        self.by_id: dict[int, GpuObject] = {}
        self._mapped: list[GpuObject] = []
        """Freed, but still mapped by the process."""
        self._next = 1

    def __iter__(self) -> Iterator[GpuObject]:
        return iter(self.by_id.values())

    def get(self, number: int) -> GpuObject:
        """By id. Raises: OSError EINVAL."""
        found = self.by_id.get(number)
        if found is None:
            raise OSError(errno.EINVAL, f"no GPU object {number}")
        return found

    def at(self, gpu_va: int) -> GpuObject:
        """The one that begins at an address. Raises: OSError EINVAL."""
        for found in self.by_id.values():
            if found.gpu_va == gpu_va and gpu_va:
                return found
        raise OSError(errno.EINVAL, f"no GPU object at {gpu_va:#x}")

    def alloc(self, size: int, flags: int) -> GpuObject:
        """New memory. Raises: OSError EINVAL, EOPNOTSUPP, ENOMEM.

        src: kgsl.c gpumem_alloc_entry()
        """
        if flags & abi.MEM_SECURE:
            raise OSError(errno.EOPNOTSUPP, "no secure memory")
        page = self._hardware.options.page_bytes
        nbytes = -(-size // page) * page
        rules = self._hardware.rules
        if not 0 < nbytes <= rules.number("alloc_most"):
            raise OSError(errno.EINVAL, f"{size:#x} bytes: 4 GiB and more are refused")
        most = rules.number("align_most")
        if (flags >> abi.ALIGN_SHIFT & abi.ALIGN_MASK) > most:
            flags = flags & ~(abi.ALIGN_MASK << abi.ALIGN_SHIFT) | most << abi.ALIGN_SHIFT
        flags = self._flags(flags)
        memory = self._hardware.memory.new(
            f"GPU object {self._next}", nbytes, cached=self._incoherent(flags)
        )
        return self.add(memory, flags, nbytes)

    def _flags(self, flags: int) -> int:
        """Those that are kept. # src: kgsl.c kgsl_filter_cachemode(), kgsl_memdesc_init()"""
        flags &= _KEPT
        if flags >> abi.CACHE_SHIFT & abi.CACHE_MASK == abi.WRITE_THROUGH:
            flags |= abi.WRITE_BACK << abi.CACHE_SHIFT
        plain = "coherent_if_cached" in self._hardware.rules and not _cached(flags)
        if plain or not self._hardware.coherent:
            flags &= ~abi.MEM_IO_COHERENT
        return flags

    @staticmethod
    def _incoherent(flags: int) -> bool:
        return _cached(flags) and not flags & abi.MEM_IO_COHERENT

    def coherent(self, flags: int) -> bool:
        """Whether imported memory with these flags is seen through the CPU's caches."""
        return bool(self._flags(flags) & abi.MEM_IO_COHERENT)

    def add(self, memory: Memory, flags: int, nbytes: int, va: int = 0) -> GpuObject:
        """An object of memory; mapped to the GPU, unless mmap will choose the address."""
        made = GpuObject(self._next, memory, flags, nbytes)
        self._next += 1
        try:
            if va or not made.by_cpu_address:
                self.place(made, va)
        except OSError:
            self._hardware.memory.drop(memory)
            raise
        self.by_id[made.id] = made
        return made

    def place(self, made: GpuObject, va: int = 0) -> None:
        """Map it to the GPU, at an address or where there is room. Raises: OSError ENOMEM."""
        nbytes = made.memory.nbytes
        align = max(host.PAGE_BYTES, 1 << (made.flags >> abi.ALIGN_SHIFT & abi.ALIGN_MASK))
        found = va or self.space.room(_VA_LOW, _VA_HIGH, nbytes, align)
        if found is None or not self.space.free(found, nbytes):
            raise OSError(errno.ENOMEM, f"no {nbytes:#x} bytes of GPU addresses")
        made.gpu_va = found
        writable = not made.flags & abi.MEM_READ_ONLY
        self.space.map(Mapping(found, nbytes, made.memory, writable=writable))

    def free(self, made: GpuObject) -> None:
        """The id is gone; what is mapped by the process stays until it is not."""
        del self.by_id[made.id]
        made.freed = True
        if made.maps:
            self._mapped.append(made)
        else:
            self._destroy(made)

    def unmapped(self, made: GpuObject) -> None:
        """A mapping of the process is gone."""
        made.maps -= 1
        if not made.maps and made.freed:
            self._mapped = [kept for kept in self._mapped if kept is not made]
            self._destroy(made)

    def _destroy(self, made: GpuObject) -> None:
        if made.gpu_va:
            mapping = self.space.unmap(made.gpu_va)
            if mapping is not None:
                self._hardware.memory.drop(mapping.memory)
        self._hardware.memory.drop(made.memory)

    def sync(self, made: GpuObject, offset: int, length: int, op: int) -> None:
        """Clean or invalidate CPU caches of a range. Raises: OSError EINVAL, ERANGE.

        src: kgsl.c _kgsl_gpumem_sync_cache(), kgsl_sharedmem.c kgsl_cache_range_op()
        """
        if not op & (abi.SYNC_TO_GPU | abi.SYNC_FROM_GPU):
            raise OSError(errno.EINVAL, f"cache operation {op:#x}")
        if not op & abi.SYNC_RANGE:
            offset, length = 0, made.memory.nbytes
        if not self._incoherent(made.flags):
            return
        if not 0 < length <= _MOST_SYNCED:
            raise OSError(errno.EINVAL, f"{length:#x} bytes to sync")
        if offset + length > made.memory.nbytes:
            raise OSError(errno.ERANGE, f"{offset:#x}+{length:#x} is outside object {made.id}")
        by_pages = "sync_pages" in self._hardware.rules
        if by_pages:
            offset, length = self._pages(made, offset, length)
        if op & abi.SYNC_TO_GPU or not by_pages:
            made.memory.clean(offset, length)
        if op & abi.SYNC_FROM_GPU:
            made.memory.invalidate(offset, length, self._hardware.find)

    def _pages(self, made: GpuObject, offset: int, length: int) -> tuple[int, int]:
        """What is synced since 5.4, where the part of an offset in whole pages was exchanged with
        its rest: from the first pages of the object on."""
        page = self._hardware.options.page_bytes
        rest = offset % page
        length += offset - rest
        if made.imported or "sync_skips_first" not in self._hardware.rules:
            low, high = 0, -(-length // page)
        else:
            low, high = -(-rest // page), -(-(rest + length) // page)
        low, high = low * page, min(high * page, made.memory.nbytes)
        return low, max(0, high - low)

    def close(self) -> None:
        """The process is gone."""
        for made in [*self.by_id.values()]:
            made.maps = 0
            self.free(made)
        for made in self._mapped:
            self._destroy(made)
        self._mapped.clear()


def _cached(flags: int) -> bool:
    mode = flags >> abi.CACHE_SHIFT & abi.CACHE_MASK
    return mode in (abi.WRITE_BACK, abi.WRITE_THROUGH)
