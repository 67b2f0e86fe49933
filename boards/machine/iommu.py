"""The IOMMU's part: which bus addresses a device may use, with which right.

A domain maps I/O virtual addresses to pinned pages. VFIO's type1 driver and iommufd fill one; a
device is attached to at most one.

src: Linux 6.12 drivers/vfio/vfio_iommu_type1.c, drivers/iommu/iommufd/io_pagetable.c
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from boards.machine import host
from boards.machine.pinned import Pin, Pinner
from boards.machine.pool import Pool

# src: x86's MSI window and the usual 48-bit aperture of x86 IOMMUs, as IOVA ranges show them
APERTURE = ((0, 0xFEDF_FFFF), (0xFEF0_0000, (1 << 48) - 1))
ENTRY_LIMIT = 65535
"""src: vfio_iommu_type1.c dma_entry_limit"""
Find = Callable[[str, str, str], None]


@dataclass(frozen=True, slots=True)
class Mapping:
    """One mapping: it is taken away as a whole."""

    iova: int
    nbytes: int
    pin: Pin
    read: bool
    write: bool

    @property
    def end(self) -> int:
        """One past the last address."""
        return self.iova + self.nbytes


class Domain:
    """An address space of devices."""

    def __init__(self, find: Find, limit_bytes: int | None) -> None:
        self._find, self._limit_bytes = find, limit_bytes
        self._starts: list[int] = []
        self._mappings: dict[int, Mapping] = {}
        self.pinned_bytes = 0
        self.faults = 0

    def map(
        self, owner: Pinner, iova: int, va: int, nbytes: int, *, read: bool, write: bool
    ) -> None:
        """Pin and map. Raises: OSError EINVAL, EEXIST, ENOSPC, ENOMEM, EFAULT."""
        if nbytes <= 0 or (iova | va | nbytes) % host.PAGE_BYTES or not (read or write):
            raise OSError(errno.EINVAL, f"cannot map {nbytes:#x} bytes at {iova:#x}")
        end = iova + nbytes
        if next(self.inside(iova, end), None) is not None:
            raise OSError(errno.EEXIST, f"something is mapped in {iova:#x}+{nbytes:#x}")
        if not any(low <= iova and end - 1 <= high for low, high in APERTURE):
            raise OSError(errno.EINVAL, f"{iova:#x}+{nbytes:#x} is outside the IOMMU's aperture")
        if len(self._mappings) >= ENTRY_LIMIT:
            raise OSError(errno.ENOSPC, f"{ENTRY_LIMIT} mappings are all there may be")
        if self._limit_bytes is not None and self.pinned_bytes + nbytes > self._limit_bytes:
            raise OSError(errno.ENOMEM, f"more than {self._limit_bytes:#x} bytes locked")
        pin = owner.pin(va, nbytes, write=write)
        self._starts.insert(bisect_right(self._starts, iova), iova)
        self._mappings[iova] = Mapping(iova, nbytes, pin, read, write)
        self.pinned_bytes += nbytes

    def inside(self, start: int, end: int) -> Iterator[Mapping]:
        """Mappings that overlap a range, in order."""
        at = max(0, bisect_right(self._starts, start) - 1)
        for iova in self._starts[at : bisect_right(self._starts, end - 1)]:
            if self._mappings[iova].end > start:
                yield self._mappings[iova]

    def unmap(self, start: int, end: int) -> int:
        """Bytes that were mapped in a range, and are not any more.

        Raises: OSError EINVAL, with nothing changed, where the range would cut a mapping.
        """
        gone = list(self.inside(start, end))
        if any(one.iova < start or one.end > end for one in gone):
            raise OSError(errno.EINVAL, f"{start:#x} to {end:#x} would cut a mapping")
        for one in gone:
            del self._mappings[one.iova]
            self._starts.remove(one.iova)
        nbytes = sum(one.nbytes for one in gone)
        self.pinned_bytes -= nbytes
        return nbytes

    def clear(self) -> None:
        """Nothing is mapped any more."""
        self.unmap(0, 1 << 64)

    @property
    def mappings(self) -> int:
        """How many there are."""
        return len(self._mappings)

    def decode(self, address: int, nbytes: int, write: bool) -> tuple[Pool, int] | None:
        """The memory behind an address; None, and a violation, where the IOMMU stops the device."""
        found = next(self.inside(address, address + nbytes), None)
        why = ""
        if found is None or found.iova > address or found.end < address + nbytes:
            why = "is not mapped"
        elif not (found.write if write else found.read):
            why = "may not be written" if write else "may not be read"
        elif not found.pin.there():
            why = "is memory that the process has given back"
        if found is None or why:
            self.faults += 1
            self._find("IOMMU fault", f"{address:#x}+{nbytes:#x} {why}", "")
            return None
        return found.pin.pool, address - found.iova
