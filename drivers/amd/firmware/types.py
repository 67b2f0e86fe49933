"""How AMD's security processor distinguishes firmware: the two lists of kinds it knows."""

from __future__ import annotations

from enum import IntEnum


class PspFw(IntEnum):
    """Parts of the security processor's own file, as its table of contents numbers them.

    src: Linux 6.12, amdgpu_ucode.h, enum psp_fw_type
    """

    SOS = 1
    SYS_DRV = 2
    KDB = 3
    TOC = 4
    SPL = 5
    RL = 6
    SOC_DRV = 7
    INTF_DRV = 8
    DBG_DRV = 9
    RAS_DRV = 10
    IPKEYMGR_DRV = 11


class GfxFw(IntEnum):
    """Firmware of other blocks, as the command that loads it numbers them.

    In the order in which amdgpu sends them, SMU and P2S_TABLE before the others.
    src: numbers: Linux 6.12, psp_gfx_if.h, enum psp_gfx_fw_type; order: amdgpu_ucode.h, enum
    AMDGPU_UCODE_ID, and amdgpu_psp.c, psp_load_non_psp_fw
    """

    SMU = 18
    P2S_TABLE = 129
    SDMA0 = 9
    SDMA1 = 10
    SDMA2 = 52
    SDMA3 = 53
    SDMA_UCODE_TH0 = 71
    SDMA_UCODE_TH1 = 72
    CP_PFP = 2
    CP_ME = 1
    RS64_PFP = 87
    RS64_ME = 88
    RS64_MEC = 89
    RS64_PFP_P0_STACK = 90
    RS64_PFP_P1_STACK = 91
    RS64_ME_P0_STACK = 92
    RS64_ME_P1_STACK = 93
    RS64_MEC_P0_STACK = 94
    RS64_MEC_P1_STACK = 95
    RS64_MEC_P2_STACK = 96
    RS64_MEC_P3_STACK = 97
    CP_MEC = 4
    CP_MEC_ME1 = 5
    IMU_I = 68
    IMU_D = 69
    GLOBAL_TAP_DELAYS = 27
    SE0_TAP_DELAYS = 28
    SE1_TAP_DELAYS = 29
    SE2_TAP_DELAYS = 65
    SE3_TAP_DELAYS = 66
    RLC_RESTORE_LIST_SRM_CNTL = 22
    RLC_RESTORE_LIST_GPM_MEM = 20
    RLC_RESTORE_LIST_SRM_MEM = 21
    RLC_IRAM = 26
    RLC_DRAM_BOOT = 48
    RLC_P = 25
    RLC_V = 7
    RLC_G = 8


LOAD_ORDER: dict[GfxFw, int] = {kind: place for place, kind in enumerate(GfxFw)}
"""Where in the sequence of loads a kind comes."""
