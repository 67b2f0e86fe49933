"""Registers that a dispatch is made of, by name, in both generations.

src: Mesa 25.0.7, src/freedreno/registers/adreno/a6xx.xml: variants A6XX and A7XX-
"""

from __future__ import annotations

from dataclasses import dataclass

SP_MODE_CONTROL = 0xAB00
SP_CS_CTRL_REG0, SP_CS_CTRL_REG1 = 0xA9B0, 0xA9B1
SP_CS_OBJ_FIRST_EXEC_OFFSET, SP_CS_OBJ_START = 0xA9B3, 0xA9B4
SP_CS_PVT_MEM_PARAM, SP_CS_PVT_MEM_ADDR, SP_CS_PVT_MEM_SIZE = 0xA9B6, 0xA9B7, 0xA9B9
SP_CS_CONFIG, SP_CS_INSTRLEN, SP_CS_PVT_MEM_HW_STACK_OFFSET = 0xA9BB, 0xA9BC, 0xA9BD
SP_CS_CNTL_0, SP_CS_CNTL_1 = 0xA9C2, 0xA9C3
SP_CS_TEX_SAMP, SP_CS_TEX_CONST, SP_CS_BINDLESS_BASE = 0xA9E2, 0xA9E6, 0xA9E8
SP_CS_IBO, SP_CS_IBO_COUNT = 0xA9F2, 0xAA00
CP_ALWAYS_ON_COUNTER = 0x980
CP_ALWAYS_ON_CONTEXT = 0x982


@dataclass(frozen=True, slots=True)
class Offsets:
    """Registers that the generations have in different places."""

    invalidate: int
    """HLSQ_INVALIDATE_CMD"""
    cs_cntl: int
    """HLSQ_CS_CNTL"""
    ndrange: int
    """HLSQ_CS_NDRANGE_0 and six more"""
    group: int
    """HLSQ_CS_KERNEL_GROUP_X, Y, Z"""
    cntl_0: int
    """HLSQ_CS_CNTL_0 of generation 6, SP_CS_CNTL_0 of 7"""
    cntl_1: int
    """HLSQ_CS_CNTL_1"""
    last_local: int
    """HLSQ_CS_LAST_LOCAL_SIZE; 0: there is none"""
    bindless: int
    """HLSQ_CS_BINDLESS_BASE; 0: there is none"""
    sets: int
    """Bindless bases."""
    shared: int
    """HLSQ_SHARED_CONSTS; 0: there is none."""
    shared_consts: int
    """HLSQ_SHARED_CONSTS_IMM; 0: LOAD_STATE6 fills them."""


GENERATION_6 = Offsets(
    invalidate=0xBB08, cs_cntl=0xB987, ndrange=0xB990, group=0xB999, cntl_0=0xB997,
    cntl_1=0xB998, last_local=0, bindless=0xB9C0, sets=5, shared=0xBB11, shared_consts=0,
)  # fmt: skip
GENERATION_7 = Offsets(
    invalidate=0xAB1F, cs_cntl=0xA9CD, ndrange=0xA9D4, group=0xA9DC, cntl_0=SP_CS_CNTL_0,
    cntl_1=0xA9DB, last_local=0xA9DF, bindless=0, sets=8, shared=0, shared_consts=0xAB40,
)  # fmt: skip


SEVENTH = 7


def offsets(generation: int) -> Offsets:
    """Those of a generation."""
    return GENERATION_7 if generation >= SEVENTH else GENERATION_6
