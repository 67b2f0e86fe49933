"""Registers of compute work, of generations 6 and 7: number, and fields that this stack packs.

Numbers count words. Where a name has two, the chips of a generation have one each.
# src: Mesa 25.0.7, src/freedreno/registers/adreno/a6xx.xml, variants A6XX and A7XX-
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drivers.base.errors import BadArgument

GEN6, GEN7 = 6, 7
_BOTH: Final[Mapping[str, int]] = {
    "CP_ALWAYS_ON_COUNTER": 0x0980,
    "UCHE_UNKNOWN_0E12": 0x0E12,
    "UCHE_CACHE_WAYS": 0x0E17,
    "UCHE_CLIENT_PF": 0x0E19,
    "SP_CS_CTRL_REG0": 0xA9B0,
    "SP_CS_CTRL_REG1": 0xA9B1,
    "SP_CS_OBJ_FIRST_EXEC_OFFSET": 0xA9B3,
    "SP_CS_OBJ_START": 0xA9B4,
    "SP_CS_PVT_MEM_PARAM": 0xA9B6,
    "SP_CS_PVT_MEM_ADDR": 0xA9B7,
    "SP_CS_PVT_MEM_SIZE": 0xA9B9,
    "SP_CS_TEX_COUNT": 0xA9BA,
    "SP_CS_CONFIG": 0xA9BB,
    "SP_CS_INSTRLEN": 0xA9BC,
    "SP_CS_PVT_MEM_HW_STACK_OFFSET": 0xA9BD,
    "SP_CS_CNTL_0": 0xA9C2,
    "SP_CS_CNTL_1": 0xA9C3,
    "SP_CS_TEX_SAMP": 0xA9E2,
    "SP_CS_TEX_CONST": 0xA9E6,
    "SP_CS_IBO": 0xA9F2,
    "SP_CS_IBO_COUNT": 0xAA00,
    "SP_UNKNOWN_AAF2": 0xAAF2,
    "SP_MODE_CONTROL": 0xAB00,
    "SP_FS_INSTRLEN": 0xAB05,
    "SP_DBG_ECO_CNTL": 0xAE00,
    "SP_CHICKEN_BITS": 0xAE03,
    "SP_FLOAT_CNTL": 0xAE04,
    "SP_PERFCTR_ENABLE": 0xAE0F,
    "SP_TP_MODE_CNTL": 0xB309,
    "TPL1_DBG_ECO_CNTL": 0xB600,
    "TPL1_DBG_ECO_CNTL1": 0xB602,
}
_GEN6: Final[Mapping[str, int]] = {
    "TPL1_UNKNOWN_B605": 0xB605,
    "HLSQ_FS_CNTL_0": 0xB980,
    "HLSQ_CS_CNTL": 0xB987,
    "HLSQ_CS_NDRANGE_0": 0xB990,
    "HLSQ_CS_CNTL_0": 0xB997,
    "HLSQ_CS_CNTL_1": 0xB998,
    "HLSQ_CS_KERNEL_GROUP_X": 0xB999,
    "HLSQ_CS_CTRL_REG1": 0xB9D0,
    "HLSQ_INVALIDATE_CMD": 0xBB08,
    "HLSQ_SHARED_CONSTS": 0xBB11,
    "HLSQ_UNKNOWN_BE00": 0xBE00,
    "HLSQ_UNKNOWN_BE01": 0xBE01,
    "HLSQ_DBG_ECO_CNTL": 0xBE04,
}
_GEN7: Final[Mapping[str, int]] = {
    "UCHE_UNKNOWN_0E10": 0x0E10,
    "UCHE_UNKNOWN_0E11": 0x0E11,
    "SP_UNKNOWN_0CE2": 0x0CE2,
    "SP_UNKNOWN_0CE4": 0x0CE4,
    "SP_UNKNOWN_0CE6": 0x0CE6,
    "SP_CS_UNKNOWN_A9BE": 0xA9BE,
    "SP_CS_VGPR_CONFIG": 0xA9C5,
    "HLSQ_FS_CNTL_0": 0xA9C6,
    "HLSQ_CS_CNTL": 0xA9CD,
    "HLSQ_CS_NDRANGE_0": 0xA9D4,
    "HLSQ_CS_CNTL_1": 0xA9DB,
    "HLSQ_CS_KERNEL_GROUP_X": 0xA9DC,
    "HLSQ_CS_LAST_LOCAL_SIZE": 0xA9DF,
    "SP_UNKNOWN_AB01": 0xAB01,
    "SP_UNKNOWN_AB02": 0xAB02,
    "HLSQ_INVALIDATE_CMD": 0xAB1F,
    "SP_UNKNOWN_AB22": 0xAB22,
    "SP_UNKNOWN_AE06": 0xAE06,
    "SP_UNKNOWN_AE08": 0xAE08,
    "SP_UNKNOWN_AE09": 0xAE09,
    "SP_UNKNOWN_AE0A": 0xAE0A,
    "SP_UNKNOWN_AE6A": 0xAE6A,
    "SP_UNKNOWN_AE6B": 0xAE6B,
    "SP_UNKNOWN_AE6C": 0xAE6C,
    "SP_UNKNOWN_AE73": 0xAE73,
    "SP_UNKNOWN_B310": 0xB310,
}
REGISTERS: Final[Mapping[int, Mapping[str, int]]] = {
    GEN6: {**_BOTH, **_GEN6},
    GEN7: {**_BOTH, **_GEN7},
}
NDRANGE_COUNT: Final = 7
"""HLSQ_CS_NDRANGE_0 ... 6 follow each other."""
_FOLLOWING: Final = {
    "HLSQ_CS_NDRANGE_0": tuple(f"HLSQ_CS_NDRANGE_{number}" for number in range(NDRANGE_COUNT)),
    "HLSQ_CS_KERNEL_GROUP_X": tuple(f"HLSQ_CS_KERNEL_GROUP_{axis}" for axis in "XYZ"),
    "SP_CS_OBJ_START": ("SP_CS_OBJ_START", "SP_CS_OBJ_START+1"),
    "SP_CS_PVT_MEM_ADDR": ("SP_CS_PVT_MEM_ADDR", "SP_CS_PVT_MEM_ADDR+1"),
    "SP_CS_TEX_SAMP": ("SP_CS_TEX_SAMP", "SP_CS_TEX_SAMP+1"),
    "SP_CS_TEX_CONST": ("SP_CS_TEX_CONST", "SP_CS_TEX_CONST+1"),
    "SP_CS_IBO": ("SP_CS_IBO", "SP_CS_IBO+1"),
}


def register(generation: int, name: str) -> int:
    """The number of a register. Raises: KeyError."""
    return REGISTERS[generation][name]


def names_of(generation: int) -> dict[int, str]:
    """Number -> name, also of those that follow a named one."""
    found: dict[int, str] = {}
    for name, number in REGISTERS[generation].items():
        for off, each in enumerate(_FOLLOWING.get(name, (name,))):
            found[number + off] = each
    return found


def field(value: int, high: int, low: int) -> int:
    """A value in bits `high` ... `low` of a register. Raises: BadArgument for what does not fit."""
    if not 0 <= value < 1 << high - low + 1:
        raise BadArgument(f"{value:#x} does not fit bits {high}:{low} of a register")
    return value << low
