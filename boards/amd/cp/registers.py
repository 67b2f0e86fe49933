"""The registers that a compute queue may set, and how a dispatch is read from them.

Offsets are in dwords from the SH register space, 0x2c00 (nvd.h, soc15d.h SET_SH_REG_START).
src: gc_{9_4_3,10_3_0,11_0_0,12_0_0}_offset.h: COMPUTE_* plus the GC segment base, less 0x2c00.
"""

from __future__ import annotations

from boards.amd.cp.context import bits

SH_BASE, UCONFIG_BASE = 0x2C00, 0xC000
SH_WORDS, UCONFIG_WORDS = 0x400, 0x400
START_X, NUM_THREAD_X = 0x204, 0x207
PGM_LO, PGM_HI, SCRATCH_BASE_LO, SCRATCH_BASE_HI = 0x20C, 0x20D, 0x210, 0x211
PGM_RSRC1, PGM_RSRC2, RESOURCE_LIMITS, TMPRING_SIZE = 0x212, 0x213, 0x215, 0x218
USER_DATA_0, USER_DATA_COUNT = 0x240, 16
PGM_RSRC3 = {"gfx9": 0x22D, "gfx10": 0x228, "gfx11": 0x228, "gfx12": 0x228}

_COMMON = {
    0x201: "COMPUTE_DIM_X", 0x202: "COMPUTE_DIM_Y", 0x203: "COMPUTE_DIM_Z",
    0x204: "COMPUTE_START_X", 0x205: "COMPUTE_START_Y", 0x206: "COMPUTE_START_Z",
    0x207: "COMPUTE_NUM_THREAD_X", 0x208: "COMPUTE_NUM_THREAD_Y", 0x209: "COMPUTE_NUM_THREAD_Z",
    0x20A: "COMPUTE_PIPELINESTAT_ENABLE", 0x20B: "COMPUTE_PERFCOUNT_ENABLE",
    0x20C: "COMPUTE_PGM_LO", 0x20D: "COMPUTE_PGM_HI",
    0x20E: "COMPUTE_DISPATCH_PKT_ADDR_LO", 0x20F: "COMPUTE_DISPATCH_PKT_ADDR_HI",
    0x210: "COMPUTE_DISPATCH_SCRATCH_BASE_LO", 0x211: "COMPUTE_DISPATCH_SCRATCH_BASE_HI",
    0x212: "COMPUTE_PGM_RSRC1", 0x213: "COMPUTE_PGM_RSRC2",
    0x215: "COMPUTE_RESOURCE_LIMITS", 0x216: "COMPUTE_STATIC_THREAD_MGMT_SE0",
    0x217: "COMPUTE_STATIC_THREAD_MGMT_SE1", 0x218: "COMPUTE_TMPRING_SIZE",
    0x219: "COMPUTE_STATIC_THREAD_MGMT_SE2", 0x21A: "COMPUTE_STATIC_THREAD_MGMT_SE3",
    0x21B: "COMPUTE_RESTART_X", 0x21C: "COMPUTE_RESTART_Y", 0x21D: "COMPUTE_RESTART_Z",
    0x21E: "COMPUTE_THREAD_TRACE_ENABLE", 0x21F: "COMPUTE_MISC_RESERVED",
} | {USER_DATA_0 + i: f"COMPUTE_USER_DATA_{i}" for i in range(USER_DATA_COUNT)}  # fmt: skip
_NV = {0x224 + i: f"COMPUTE_USER_ACCUM_{i}" for i in range(4)} | {0x228: "COMPUTE_PGM_RSRC3"}
_GFX11 = {0x22B + i: f"COMPUTE_STATIC_THREAD_MGMT_SE{4 + i}" for i in range(4)} | {
    0x22F: "COMPUTE_DISPATCH_INTERLEAVE"
}
SH_NAMES = {
    "gfx9": _COMMON | {0x22D: "COMPUTE_PGM_RSRC3"},
    "gfx10": _COMMON | _NV,
    "gfx11": _COMMON | _NV | _GFX11,
    "gfx12": _COMMON | _NV | _GFX11,
}
# src: *_offset.h GRBM_GFX_INDEX (0x2200 in segment 1, 0xa000)
UCONFIG_NAMES = {0x200: "GRBM_GFX_INDEX"}
# src: nbio_{2_3,4_3_0,7_9_0}_offset.h, nbif_6_3_1_offset.h: 0x106, 0x107 in segment 2, 0xd20.
HDP_FLUSH_REQ, HDP_FLUSH_DONE = 0xE26, 0xE27

# src: *_sh_mask.h COMPUTE_TMPRING_SIZE: WAVESIZE from bit 12 to this one, in units of bytes.
_WAVESIZE_TOP = {"gfx9": 24, "gfx10": 24, "gfx11": 26, "gfx12": 29}
# src: amd_aql_queue.cpp, mem_alignment_size: 256 from gfx11 on, 1024 before.
_WAVESIZE_UNIT_BYTES = {"gfx9": 1024, "gfx10": 1024, "gfx11": 256, "gfx12": 256}
_LDS_UNIT_BYTES = 512


def scratch_wave_bytes(family: str, tmpring: int) -> int:
    """Bytes of one wave's scratch that COMPUTE_TMPRING_SIZE sets up."""
    return bits(tmpring, _WAVESIZE_TOP[family], 12) * _WAVESIZE_UNIT_BYTES[family]


def scratch_waves(family: str, tmpring: int, shader_engines: int) -> int:
    """Waves that have scratch: the register counts them for each shader engine from gfx11 on."""
    # src: amd_aql_queue.cpp FillComputeTmpRingSize_Gfx11, _Gfx12 divide by NumShaderBanks.
    per_engine = family in ("gfx11", "gfx12")
    return bits(tmpring, 11, 0) * (shader_engines if per_engine else 1)


def scratch_enabled(rsrc2: int) -> bool:
    """SCRATCH_EN of COMPUTE_PGM_RSRC2."""
    return bool(rsrc2 & 1)


def user_sgprs(rsrc2: int) -> int:
    """USER_SGPR of COMPUTE_PGM_RSRC2: scalar registers that start with USER_DATA."""
    return bits(rsrc2, 5, 1)


def lds_bytes(rsrc2: int) -> int:
    """LDS_SIZE of COMPUTE_PGM_RSRC2, in bytes."""
    return bits(rsrc2, 23, 15) * _LDS_UNIT_BYTES
