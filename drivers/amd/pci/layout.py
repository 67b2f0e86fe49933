"""The first 32 MiB of VRAM: what the boot keeps there, at places that a warm re-attach finds again.

Offsets are bytes of VRAM. Everything behind BOOT_BYTES, up to the firmware's own part at the end,
belongs to the physical allocator.
"""

from __future__ import annotations

from typing import Final

from drivers.bare.place import Place

KIB: Final = 1 << 10
MIB: Final = 1 << 20
BOOT_BYTES: Final = 32 * MIB
FIRMWARE_BYTES: Final = 64 * MIB
"""Kept by firmware at the end of VRAM. src: tinygrad, amdev.py (reserved_vram_size)"""
FIRMWARE_BYTES_GFX9: Final = 384 * MIB
"""The same of gfx942."""

DUMMY_PAGE: Final = Place(0x0000_1000, 4 * KIB)
"""Where accesses that fault go: unused memory. Below the first address that the IOMMU maps
(drivers/pci/iova.py), so that the same number on the bus would reach nothing either."""
SCRATCH_PAGE: Final = Place(0x0000_2000, 4 * KIB)
"""Where accesses beyond the system aperture go."""
PSP_COMMAND: Final = Place(0x0000_4000, 4 * KIB)
PSP_FENCE: Final = Place(0x0000_5000, 4 * KIB)
SMU_TABLE: Final = Place(0x0000_8000, 16 * KIB)
PSP_RING: Final = Place(0x0001_0000, 64 * KIB)
IH_POINTERS: Final = Place(0x0002_0000, 4 * KIB)
"""Write pointers of both interrupt rings."""
IH_RING: Final = Place(0x0004_0000, 256 * KIB)
IH_RING1: Final = Place(0x0008_0000, 256 * KIB)
PSP_MESSAGE: Final = Place(0x0010_0000, MIB)
"""Firmware on its way to the security processor, which wants whole megabytes. src: psp_v13_0.c"""
TMR: Final = Place(0x0020_0000, 0x0130_0000)
"""Trusted memory that the security processor asks for. src: tinygrad, ip.py (max_tmr_size)"""
PSP_STAGES: Final = Place(TMR.offset, 16 * MIB)
"""Before trusted memory is needed: a megabyte for each stage that the bootloader loads."""
MQDS: Final = Place(0x0150_0000, MIB)
"""Queue descriptors: 4 KiB for each queue of each XCC."""
TABLE_ROOTS: Final = Place(0x0160_0000, 64 * KIB)
"""Page-table roots: 4 KiB for each of the 16 VMIDs."""
RECORD: Final = Place(0x0170_0000, 4 * KIB)
"""What a warm boot has to know of the cold one."""
GENERAL: Final = Place(RECORD.end, BOOT_BYTES - RECORD.end)
"""Unused."""
