"""What one 64-bit entry of a page table says, generation by generation.

Source: Linux 6.12, amdgpu_vm.h AMDGPU_PTE_*, AMDGPU_PDE_*; amdgpu_vm_pt.c
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from drivers.amd.pci.registers import Version
from drivers.bare.page_format import Level, Rights
from drivers.base.errors import Unsupported

VALID: Final = 1 << 0
SYSTEM: Final = 1 << 1
"""Memory of the host, by its address on the bus."""
SNOOPED: Final = 1 << 2
"""Accesses snoop the host's caches."""
EXECUTABLE: Final = 1 << 4
READABLE: Final = 1 << 5
WRITEABLE: Final = 1 << 6
FRAGMENT_SHIFT: Final = 7
"""log2 of the pages around this one that lie together and are alike. # src: AMDGPU_PTE_FRAG"""
ADDRESS_MASK: Final = 0x0000_FFFF_FFFF_F000
MTYPE_NC: Final = 0
MTYPE_UC: Final = 3
"""Kept by no cache. # src: include/navi10_enum.h, soc21_enum.h, soc24_enum.h MTYPE_*"""
MTYPE_RW: Final = 1
"""Local memory of gfx9. # src: include/vega10_enum.h; gmc_v9_0.c gmc_v9_0_get_coherence_flags()"""

PDB1: Final = 1
PDB0: Final = 2
PTB: Final = 3
ENTRIES: Final = 512
ENTRY_BYTES: Final = 8
LEVELS: Final = (
    Level(39, ENTRIES, ENTRY_BYTES, maps=False),
    Level(30, ENTRIES, ENTRY_BYTES, maps=False),
    Level(21, ENTRIES, ENTRY_BYTES, maps=True),
    Level(12, ENTRIES, ENTRY_BYTES, maps=True),
)
"""PDB2 (the root), PDB1, PDB0 and PTB."""
VA_BITS: Final = 48


@dataclass(frozen=True, slots=True)
class Format:
    """Where one generation keeps the memory type, and the marks of pages and of tables."""

    levels: ClassVar[tuple[Level, ...]] = LEVELS
    va_bits: ClassVar[int] = VA_BITS
    address_bits: ClassVar[int] = ADDRESS_MASK.bit_length()
    address_shift: ClassVar[int] = 0
    mtype_shift: int
    mtype_local: int
    """Of VRAM that caches may keep."""
    mtype_host: int
    """Of host memory that caches may keep."""
    local_flags: int
    """Further bits of entries for VRAM."""
    leaf: int
    """Marks an entry of an upper table that maps memory itself."""
    mapping: int
    """Further bits of every entry that maps memory."""
    further: bool
    """Entries of PDB0 map memory unless a bit says otherwise: "translate further"."""

    def table(self, address: int, level: int) -> int:
        """The entry in a table of `level` for the next table.

        # src: gmc_v9_0.c gmc_v9_0_get_vm_pde(): block fragment size 9 in PDB1, TF in PDB0
        """
        entry = address & ADDRESS_MASK | VALID
        if self.further and level == PDB1:
            entry |= BLOCK_FRAGMENT
        elif self.further and level == PDB0:
            entry |= TRANSLATE_FURTHER
        return entry

    def empty(self, level: int) -> int:
        """An entry behind which nothing is: a page that is not valid, rather than a bad table.

        # src: amdgpu_vm_pt.c amdgpu_vm_pt_clear(), amdgpu_vm_pte_update_flags()
        """
        if level == PTB:
            return EXECUTABLE
        if self.further and level == PDB0:
            return EMPTY_FURTHER
        return self.leaf

    def page(self, level: int, rights: Rights, *, system: bool) -> int:
        """Everything of a page's entry but its address and fragment."""
        cached = self.mtype_host if system else self.mtype_local
        mtype = MTYPE_UC if rights.uncached else cached
        flags = VALID | READABLE | self.mapping | mtype << self.mtype_shift
        flags |= SYSTEM | SNOOPED if system else self.local_flags
        flags |= WRITEABLE if rights.writable else 0
        flags |= EXECUTABLE if rights.executable else 0
        if level != PTB and not self.further:
            flags |= self.leaf
        return flags

    def together(self, level: int, log2_pages: int) -> int:
        """The fragment; of an entry of PDB0 that maps memory the pages of 2 MiB."""
        return log2_pages << FRAGMENT_SHIFT


BLOCK_FRAGMENT: Final = 9 << 59
"""Entries of the table below cover 2^9 pages. # src: AMDGPU_PDE_BFS"""
TRANSLATE_FURTHER: Final = 1 << 56
"""This entry is a table after all. # src: AMDGPU_PTE_TF"""
EMPTY_FURTHER: Final = 1 << 12
"""# src: gmc_v9_0.c gmc_v9_0_get_vm_pde(), an invalid entry of PDB0"""

_PDE_PTE: Final = 1 << 54
_IS_PTE: Final = 1 << 63
_FORMATS: Final = {
    # gfx942 translates further, in amdgpu (gmc_v9_0.c gmc_v9_0_sw_init()) and in tinygrad.
    # src: AMDGPU_PTE_MTYPE_VG10_SHIFT; 9.4.3 snoops for VRAM too, and host memory is never cached
    9: Format(57, MTYPE_RW, MTYPE_UC, SNOOPED, _PDE_PTE, 0, further=True),
    # src: AMDGPU_PTE_MTYPE_NV10_SHIFT; kfd_svm.c svm_range_get_pte_flags(), default
    11: Format(48, MTYPE_NC, MTYPE_NC, 0, _PDE_PTE, 0, further=False),
    # src: AMDGPU_PTE_MTYPE_GFX12_SHIFT, AMDGPU_PTE_IS_PTE, AMDGPU_PDE_PTE_GFX12
    12: Format(54, MTYPE_NC, MTYPE_NC, 0, _IS_PTE, _IS_PTE, further=False),
}


def format_of(gc: Version) -> Format:
    """The format of a graphics core's version. Raises: Unsupported."""
    found = _FORMATS.get(gc[0])
    if found is None:
        raise Unsupported(
            f"the page tables of GC {'.'.join(map(str, gc))} are not known",
            hint="Leave this GPU to its kernel driver (AMD_IFACE=KFD)",
        )
    return found
