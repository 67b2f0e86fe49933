"""Page tables of other GPUs than we boot: formats as a driver writes them, walkers as hardware is.

NVIDIA's five levels since Pascal: the format is Linux's reading (6.12, nouveau,
nvkm/subdev/mmu/vmmgp100.c: gp100_vmm_desc_12, gp100_vmm_pde(), gp100_vmm_pd0_pte(),
gp100_vmm_valid()); the walker has the vendor's bit ranges (open-gpu-kernel-modules,
published/pascal/gp100/dev_mmu.h, NV_MMU_VER2_*). The other format is made up: entries of 32 bits,
and tables of two pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from drivers.bare.page_format import Format, Level, Rights

Read = Callable[[int, int], int]
"""(address in VRAM, bytes) -> the value there, little endian."""


@dataclass(frozen=True)
class Leaf:
    """What a walker finds behind an address."""

    address: int
    system: bool
    writable: bool
    uncached: bool
    page_bytes: int


class Pascal:
    """Tables and pages of 4 KiB, and 2 MiB from the level above, whose entries are pairs."""

    levels = (
        Level(47, 4, 8, maps=False),
        Level(38, 512, 8, maps=False),
        Level(29, 512, 8, maps=False),
        Level(21, 256, 16, maps=True),
        Level(12, 512, 8, maps=True),
    )
    va_bits = 49
    address_bits = 37
    address_shift = 4

    def table(self, address: int, level: int) -> int:
        """In VRAM; the small pages' table is the second half of a pair."""
        entry = address >> 4 | 1 << 1
        return entry << 64 if level == 3 else entry

    def empty(self, level: int) -> int:
        """Nothing at all."""
        return 0

    def page(self, level: int, rights: Rights, *, system: bool) -> int:
        """Everything may be executed."""
        aperture = 2 if system else 0
        return 1 | aperture << 1 | rights.uncached << 3 | (not rights.writable) << 6

    def together(self, level: int, log2_pages: int) -> int:
        """Entries say nothing of their neighbours."""
        return 0


class Narrow:
    """Made up: 32-bit entries, the root's map 8 MiB or name a table of 2048 entries."""

    levels = (Level(23, 512, 4, maps=True), Level(12, 2048, 4, maps=True))
    va_bits = 32
    address_bits = 40
    address_shift = 12

    def table(self, address: int, level: int) -> int:
        """Bit 31 marks a table."""
        return 1 << 31 | address >> 12

    def empty(self, level: int) -> int:
        """All ones but the mark: what must not be taken for a page."""
        return 0x7FFF_FFFF

    def page(self, level: int, rights: Rights, *, system: bool) -> int:
        """Bit 28 system, bit 29 writable, bit 30 uncached."""
        return system << 28 | rights.writable << 29 | rights.uncached << 30

    def together(self, level: int, log2_pages: int) -> int:
        """Entries say nothing of their neighbours."""
        return 0


def _bits(value: int, high: int, low: int) -> int:
    return value >> low & (1 << high - low + 1) - 1


def walk_pascal(read: Read, root: int, va: int) -> Leaf | None:
    """As the vendor's header has the fields; None where nothing is mapped."""
    table = root
    for high, low in ((48, 47), (46, 38), (37, 29)):
        entry = read(table + 8 * _bits(va, high, low), 8)
        if _bits(entry, 2, 1) != 1:  # NV_MMU_VER2_PDE_APERTURE_VIDEO_MEMORY
            return None
        table = _bits(entry, 32, 8) << 12  # PDE_ADDRESS_VID, PDE_ADDRESS_SHIFT
    pair = read(table + 16 * _bits(va, 28, 21), 16)
    if _bits(pair, 0, 0):  # a PTE in place of the big pages' table
        return _leaf(pair & (1 << 64) - 1, va, 21)
    if _bits(pair, 66, 65) != 1:  # NV_MMU_VER2_DUAL_PDE_APERTURE_SMALL
        return None
    table = _bits(pair, 96, 72) << 12  # DUAL_PDE_ADDRESS_SMALL_VID
    entry = read(table + 8 * _bits(va, 20, 12), 8)
    return _leaf(entry, va, 12) if _bits(entry, 0, 0) else None


def _leaf(entry: int, va: int, shift: int) -> Leaf:
    aperture = _bits(entry, 2, 1)  # NV_MMU_VER2_PTE_APERTURE: 0 video, 2 coherent system memory
    if aperture not in (0, 2):
        raise AssertionError(f"{entry:#x} names no memory that the tests map")
    system = aperture == 2
    address = _bits(entry, 53 if system else 32, 8) << 12  # PTE_ADDRESS_SYS, PTE_ADDRESS_VID
    offset = va & (1 << shift) - 1
    return Leaf(
        address + offset, system, not _bits(entry, 6, 6), bool(_bits(entry, 3, 3)), 1 << shift
    )


def walk_narrow(read: Read, root: int, va: int) -> Leaf | None:
    """Word by word."""
    entry, shift = read(root + va // (8 << 20) * 4, 4), 23
    if entry // 2**31:
        table = entry % 2**31 * 4096
        entry, shift = read(table + va // 4096 % 2048 * 4, 4), 12
    if entry == 0x7FFF_FFFF:
        return None
    address = entry % 2**28 * 4096 + va % 2**shift
    flags = [bool(entry // 2**bit % 2) for bit in (28, 29, 30)]
    return Leaf(address, *flags, page_bytes=2**shift)


FORMATS: dict[str, tuple[Format, Callable[[Read, int, int], Leaf | None]]] = {
    "Pascal": (Pascal(), walk_pascal),
    "made up": (Narrow(), walk_narrow),
}
