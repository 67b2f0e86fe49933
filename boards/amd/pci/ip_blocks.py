"""Which IP blocks each chip has and where their registers lie, in dwords from BAR5's beginning.

The discovery binary lists these, and the register file is built from them.
"""

from __future__ import annotations

from dataclasses import dataclass

from boards.amd.cp.engine_types import Chip, Version

# src: include/soc15_hw_ip.h *_HWID
HW_IDS = {
    "MP1": 1, "THM": 3, "SMUIO": 4, "FUSE": 5, "CLKA": 6, "GC": 11, "VCN": 12, "MMHUB": 34,
    "ATHUB": 35,
    "OSSSYS": 40, "HDP": 41, "SDMA0": 42, "SDMA1": 43, "DF": 46, "LSDMA": 91, "NBIF": 108,
    "UMC": 150, "MP0": 255,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class IpBlock:
    """One instance of one block."""

    name: str
    instance: int
    version: Version
    bases_dw: tuple[int, ...]
    """Of each segment."""
    table: str
    """Which register table; "" where none of its registers is modelled."""
    prefixes: tuple[str, ...] = ()
    """Of the table, only registers whose names begin so; all of them when empty."""

    @property
    def hw_id(self) -> int:
        """The number that the discovery binary calls the block by."""
        return HW_IDS[self.name]


# src: include/*_ip_offset.h of Aldebaran and Beige Goby; notes section 3, which took navi_offsets
_BASES: dict[str, tuple[int, ...]] = {
    "GC": (0x1260, 0xA000, 0x1C000, 0x240_2C00),
    "SDMA0": (0x1260, 0xA000, 0x1C000, 0x240_2C00),
    "SDMA1": (0x1260, 0xA000, 0x1C000, 0x240_2C00),
    "MMHUB": (0x1A000, 0x240_8800),
    "NBIF": (0, 0x14, 0xD20, 0x10400, 0x241_B000, 0x404_0000),
    "MP0": (0x16000, 0xDC_0000, 0xE0_0000, 0xE4_0000, 0x243_FC00),
    "MP1": (0x16000, 0xDC_0000, 0xE0_0000, 0xE4_0000, 0x243_FC00),
    "HDP": (0xF20, 0x240_A400),
    "OSSSYS": (0x10A0, 0x240_A000),
    "ATHUB": (0xC00, 0x240_8C00),
    "THM": (0x16600, 0x240_0C00),
    "SMUIO": (0x16800, 0x16A00, 0x44_0000, 0x240_1000),
    "FUSE": (0x17400, 0x240_1400),
    "CLKA": (0x16C00, 0x240_1800),
    "DF": (0x7000, 0x240_B800),
    "LSDMA": (0x4_5000, 0x240_D800),
    "UMC": (0x1_4000, 0x242_5800),
    "VCN": (0x7800, 0x7E00, 0x240_3000),
}
_MP_14 = (0x16000, 0x16200, 0xE0_0000, 0xE4_0000, 0x243_FC00)
"""mp_14_0_2_offset.h counts MP1 from segment 1: with this base the registers lie where MP 13 has
them, which a driver known to run on silicon relies on."""

# gfx942: where dies of one kind lie in BAR5 is made up; a driver asks discovery. But the low 16
# bits of an XCC's registers are those of the first one: packets name registers by them.
# The memory hubs lie where their 18 bits reach.
# src: gfx_v9_4_3.c NORMALIZE_XCC_REG_OFFSET, XCC_REG_RANGE_0_LOW, XCC_REG_RANGE_1_LOW
_XCC_DW, _XCC_STEP = (0x2000, 0xA000), 0x1_0000
_SDMA_DW, _SDMA_STEP = 0x7_4000, 0x400
_MMHUB_DW, _MMHUB_STEP = 0x2_4000, 0x1000
_NBIF_942 = (0, 0x14, 0xD20, 0x10400, 0x241_B000, 0x404_0000, 0, 0, 0x405_0000)
AIDS_942 = 4
"""Base dies, each with a memory hub and four copy engines."""

_TABLES: dict[tuple[str, Version], str] = {
    ("GC", (11, 0, 2)): "gc_11_0_0",
    ("GC", (12, 0, 1)): "gc_12_0_0",
    ("NBIF", (4, 3, 0)): "nbio_4_3_0",
    ("NBIF", (6, 3, 1)): "nbif_6_3_1",
    ("NBIF", (7, 9, 0)): "nbio_7_9_0",
    ("SMUIO", (13, 0, 0)): "smuio_13_0_6",
    ("SMUIO", (14, 0, 2)): "smuio_13_0_6",  # src: smuio_14_0_2_offset.h: at the same places
}
_VCN: dict[Version, Version] = {
    (11, 0, 0): (4, 0, 0), (11, 0, 2): (4, 0, 4), (11, 0, 3): (4, 0, 0), (12, 0, 0): (5, 0, 0),
    (12, 0, 1): (5, 0, 0), (9, 4, 3): (4, 0, 3),
}  # fmt: skip
"""Video engines, by the graphics block's version. amdgpu_discovery_set_mm_ip_blocks() refuses a
chip without one; here they are fused off, see FUSED_OFF. src: names of Linux's vcn_*.bin"""
FUSED_OFF = ((HW_IDS["VCN"], 0),)
"""(hardware id, instance) of what no board has: the harvest table lists it."""
_OTHERS = ("THM", "SMUIO", "FUSE", "CLKA", "ATHUB", "DF", "LSDMA", "UMC")
_OTHER_VERSIONS: dict[str, dict[str, Version]] = {
    "gfx11": dict.fromkeys(_OTHERS, (13, 0, 0))
    | {"ATHUB": (3, 0, 0), "LSDMA": (6, 0, 0), "DF": (4, 3, 0)},
    "gfx12": dict.fromkeys(_OTHERS, (14, 0, 2))
    | {"ATHUB": (4, 1, 0), "LSDMA": (7, 0, 0), "DF": (4, 15, 0)},
    "gfx9": dict.fromkeys(_OTHERS[:-2], (13, 0, 3)) | {"ATHUB": (1, 8, 0), "DF": (4, 6, 2)},
}
"""Blocks that are listed and have no registers here; versions are of the right generation. Linux
dereferences a null pointer without a data fabric (DF) that it knows on gfx12.
src: amdgpu_discovery.c amdgpu_discovery_set_ip_blocks() DF_HWIP, soc24_common_hw_init()"""


def _hdp(chip: Chip) -> Version:
    return (chip.ip["HDP"][0], 0, 0) if chip.family != "gfx9" else chip.ip["HDP"]


def _table(name: str, version: Version) -> str:
    major, minor, revision = version
    if name in ("MP0", "MP1"):
        return {14: "mp_14_0_2"}.get(major, "mp_13_0_6" if revision == 6 else "mp_13_0_2")
    known = _TABLES.get((name, version))
    return known or f"{name.rstrip('0').lower()}_{major}_{minor}_{revision}"


def _one(chip: Chip, name: str, version: Version) -> IpBlock:
    bases = _MP_14 if name in ("MP0", "MP1") and version[0] >= 14 else _BASES[name]
    if name in _OTHERS or name in ("SDMA0", "SDMA1", "VCN"):
        return IpBlock(name, 0, version, bases, _TABLES.get((name, version), ""))
    prefixes = {"MP0": ("MP0_", "MPASP_"), "MP1": ("MP1_",)}.get(name, ())
    return IpBlock(name, 0, version, bases, _table(name, version), prefixes)


def _on_die(aid: int) -> tuple[int, ...]:
    """NBIF of another base die: the same registers behind the die's number (PciGpu has them).

    src: nbio_v7_9.c nbio_v7_9_init_registers() asks for all of them; the mark is
    aqua_vanjaram_encode_ext_smn_addressing()'s, in dwords, and amdgpu_discovery_reg_base_init()
    masks it away (0x3FFFFFFF)
    """
    return tuple(base | aid << 30 | 1 << 32 for base in _NBIF_942)


def _gfx942(chip: Chip, blocks: list[IpBlock]) -> list[IpBlock]:
    made = [block for block in blocks if block.name not in ("GC", "MMHUB", "SDMA0", "SDMA1")]
    made = [
        IpBlock("NBIF", 0, block.version, _NBIF_942, block.table) if block.name == "NBIF" else block
        for block in made
    ]
    for xcc in range(chip.xccs):
        bases = tuple(base + xcc * _XCC_STEP for base in _XCC_DW)
        made.append(IpBlock("GC", xcc, chip.gc, bases, "gc_9_4_3"))
    nbif = next(block for block in made if block.name == "NBIF")
    made += [IpBlock("NBIF", aid, nbif.version, _on_die(aid), "") for aid in range(1, AIDS_942)]
    for aid in range(AIDS_942):
        base = _MMHUB_DW + aid * _MMHUB_STEP
        made.append(IpBlock("MMHUB", aid, chip.ip["MMHUB"], (base,), "mmhub_1_8_0"))
    for engine in range(chip.sdma_engines + chip.sdma_xgmi_engines):
        base = _SDMA_DW + engine * _SDMA_STEP if engine else 0x1260
        made.append(IpBlock("SDMA0", engine, chip.sdma, (base,), "sdma_4_4_2"))
    return made


def ip_blocks(chip: Chip) -> list[IpBlock]:
    """All blocks of a chip, as its discovery binary lists them."""
    versions = dict(chip.ip) | {"HDP": _hdp(chip), "OSSSYS": _hdp(chip)}
    versions |= _OTHER_VERSIONS.get(chip.family, {})  # of gfx10 KFD alone shows a table
    if chip.family != "gfx9":
        versions["SDMA1"] = chip.sdma
    if chip.gc in _VCN:
        versions["VCN"] = _VCN[chip.gc]
    blocks = [_one(chip, name, version) for name, version in versions.items()]
    return _gfx942(chip, blocks) if chip.family == "gfx9" else blocks


def bases_dw(chip: Chip, name: str, instance: int) -> tuple[int, ...]:
    """Where the segments of a block lie. RDNA's two SDMA engines have the graphics core's."""
    found = {(block.name, block.instance): block.bases_dw for block in ip_blocks(chip)}
    return found.get((name, instance)) or found[name, 0]
