"""A GPU's virtual addresses: which memory they are, and what may be done there.

An entry of the page table is a whole mapping here; every page of it has the mapping's rights. What
a GPU would see of a mapping that is gone is not modelled: its TLB entries go with it, as UVM and RM
invalidate them before they answer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from boards.machine.arrays import Array

if TYPE_CHECKING:
    from boards.nv.memory import Memory

PAGE_BYTES = 4096
VA_BITS, HOPPER_VA_BITS = 49, 57
"""src: notes section 0: MMU v2 and v3."""
FAULT_PDE, FAULT_PTE, FAULT_RO, FAULT_WO, FAULT_ATOMIC = 0, 2, 6, 7, 15
"""NV_PFAULT_FAULT_TYPE_*. src: open-gpu-doc, dev_fault.ref.txt; notes section 6"""
READ, WRITE, ATOMIC = 0, 1, 2
"""NV_PFAULT_ACCESS_TYPE_VIRT_*."""


class MmuFault(Exception):
    """An access that the GPU's MMU refuses."""

    def __init__(self, va: int, fault: int, access: int) -> None:
        super().__init__(f"MMU fault type {fault} at {va:#x}, access type {access}")
        self.va, self.fault, self.access = va, fault, access


@dataclass(frozen=True, slots=True)
class GpuMapping:
    """Addresses that are memory from `offset` on."""

    va: int
    nbytes: int
    memory: Memory
    offset: int
    writable: bool = True
    atomics: bool = True

    @property
    def end(self) -> int:
        """One past the last address."""
        return self.va + self.nbytes


class GpuSpace:
    """One address space of a GPU."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self._starts: list[int] = []
        self._mappings: list[GpuMapping] = []

    def mappings(self) -> list[GpuMapping]:
        """Everything that is mapped, by address."""
        return list(self._mappings)

    def map(self, mapping: GpuMapping) -> None:
        """Map; what was there is unmapped before, by whoever owns the space."""
        at = bisect_right(self._starts, mapping.va)
        self._starts.insert(at, mapping.va)
        self._mappings.insert(at, mapping)

    def unmap(self, va: int, nbytes: int) -> int:
        """Take away every mapping that begins inside a range: how many."""
        gone = [m for m in self._mappings if va <= m.va and m.va < va + nbytes]
        kept = [m for m in self._mappings if m not in gone]
        self._mappings, self._starts = kept, [m.va for m in kept]
        return len(gone)

    def find(self, va: int) -> GpuMapping | None:
        """What an address is."""
        at = bisect_right(self._starts, va) - 1
        if at >= 0 and va < self._mappings[at].end:
            return self._mappings[at]
        return None

    def overlaps(self, va: int, nbytes: int) -> bool:
        """Whether anything in a range is mapped."""
        return any(m.va < va + nbytes and va < m.end for m in self._mappings)

    def parts(self, va: int, nbytes: int, access: int) -> Iterator[Array]:
        """The bytes themselves, piece by piece. Raises: MmuFault."""
        end = va + nbytes
        while va < end:
            mapping = self._checked(va, access)
            count = min(end, mapping.end) - va
            yield from mapping.memory.parts(mapping.offset + va - mapping.va, count)
            va += count

    def _checked(self, va: int, access: int) -> GpuMapping:
        mapping = self.find(va)
        if mapping is None or not mapping.memory.there():
            raise MmuFault(va, FAULT_PTE if va < 1 << self.bits else FAULT_PDE, access)
        if access != READ and not mapping.writable:
            raise MmuFault(va, FAULT_RO, access)
        if access == ATOMIC and not mapping.atomics:
            raise MmuFault(va, FAULT_ATOMIC, access)
        return mapping

    def read(self, va: int, nbytes: int) -> bytes:
        """Bytes at an address. Raises: MmuFault."""
        return b"".join(part.tobytes() for part in self.parts(va, nbytes, READ))

    def execute(self, va: int, nbytes: int) -> bytes:
        """Code at an address. Raises: MmuFault."""
        return self.read(va, nbytes)

    def write(self, va: int, data: bytes | memoryview, access: int = WRITE) -> None:
        """Store. Raises: MmuFault, before anything is stored."""
        parts = list(self.parts(va, len(data), access))
        done, view = 0, memoryview(data).cast("B")
        for part in parts:
            part.data[:] = view[done : done + len(part)]
            done += len(part)

    def read_word(self, va: int, nbytes: int) -> int:
        """A number. Raises: MmuFault."""
        return int.from_bytes(self.read(va, nbytes), "little")
