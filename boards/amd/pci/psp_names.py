"""What the security processor calls things: stages of its start, firmware kinds, commands."""

from __future__ import annotations

from collections.abc import Mapping

from boards.amd.cp.engine_types import Version

# src: amdgpu_psp.h enum psp_bootloader_cmd; the order of psp_hw_start() in amdgpu_psp.c
STAGES: Mapping[int, str] = {
    0x80000: "KDB", 0x1000_0000: "SPL", 0x10000: "SYS_DRV", 0xB0000: "SOC_DRV",
    0xD0000: "INTF_DRV", 0xC0000: "DBG_DRV", 0xE0000: "RAS_DRV", 0xF0000: "IPKEYMGR_DRV",
    0x20000: "SOS",
}  # fmt: skip
_SHORT = ("KDB", "SPL", "SYS_DRV", "SOS")
_LONG = ("KDB", "SPL", "SYS_DRV", "SOC_DRV", "INTF_DRV", "SOS")
PARTS: Mapping[Version, tuple[str, ...]] = {
    # measured: the psp_*_sos.bin of linux-firmware 20260916, listed by their headers
    (13, 0, 0): ("SYS_DRV", "SOS", "TOC", "KDB", "SPL", "RL"),
    (13, 0, 7): ("SYS_DRV", "SOS", "TOC", "KDB", "SPL"),
    (13, 0, 10): (
        "KDB", "SYS_DRV", "SOS", "SOC_DRV", "INTF_DRV", "DBG_DRV", "TOC", "RAS_DRV", "RL",
    ),
    (14, 0, 2): (
        "KDB", "SYS_DRV", "SOS", "SOC_DRV", "INTF_DRV", "DBG_DRV", "TOC", "IPKEYMGR_DRV", "SPL",
    ),
    (14, 0, 3): (
        "KDB", "SYS_DRV", "SOS", "SOC_DRV", "INTF_DRV", "DBG_DRV", "TOC", "IPKEYMGR_DRV", "SPL",
        "RAS_DRV", "RL",
    ),
    (13, 0, 6): ("SYS_DRV", "SOS", "KDB", "SOC_DRV", "INTF_DRV", "DBG_DRV", "RAS_DRV", "RL"),
}  # fmt: skip
"""What each one's file holds."""


def required_stages(version: Version) -> tuple[str, ...]:
    """Stages without which SOS does not start: those that its file has, as Linux sends them.

    The debug, RAS and key-manager drivers may stay out: tinygrad leaves the last one out and is
    known to run.
    """
    stages = _LONG if "SOC_DRV" in PARTS[version] else _SHORT
    return tuple(stage for stage in stages if stage in PARTS[version])


# src: psp_gfx_if.h enum psp_gfx_fw_type
KINDS: Mapping[int, str] = {
    1: "CP_ME", 2: "CP_PFP", 4: "CP_MEC", 5: "CP_MEC_ME1", 6: "CP_MEC_ME2", 7: "RLC_V", 8: "RLC_G",
    9: "SDMA0", 10: "SDMA1", 18: "SMU", 20: "RLC_RESTORE_LIST_GPM_MEM",
    21: "RLC_RESTORE_LIST_SRM_MEM", 22: "RLC_RESTORE_LIST_SRM_CNTL", 25: "RLC_P", 26: "RLC_IRAM",
    27: "GLOBAL_TAP_DELAYS", 28: "SE0_TAP_DELAYS", 29: "SE1_TAP_DELAYS", 33: "CP_MES",
    34: "MES_STACK", 81: "CP_MES_KIQ", 82: "MES_KIQ_STACK", 48: "RLC_DRAM_BOOT",
    52: "SDMA2", 53: "SDMA3", 65: "SE2_TAP_DELAYS", 66: "SE3_TAP_DELAYS", 67: "REG_LIST",
    68: "IMU_I", 69: "IMU_D", 71: "SDMA_UCODE_TH0", 72: "SDMA_UCODE_TH1", 76: "RS64_MES",
    77: "RS64_MES_STACK", 78: "RS64_KIQ", 79: "RS64_KIQ_STACK", 87: "RS64_PFP", 88: "RS64_ME",
    89: "RS64_MEC", 90: "RS64_PFP_P0_STACK", 91: "RS64_PFP_P1_STACK", 92: "RS64_ME_P0_STACK",
    93: "RS64_ME_P1_STACK", 94: "RS64_MEC_P0_STACK", 95: "RS64_MEC_P1_STACK",
    96: "RS64_MEC_P2_STACK", 97: "RS64_MEC_P3_STACK", 129: "P2S_TABLE",
}  # fmt: skip
RESTORE_LISTS = ("RLC_RESTORE_LIST_GPM_MEM", "RLC_RESTORE_LIST_SRM_MEM")
"""What Linux sends (amdgpu_rlc.c) and tinygrad leaves out, which is known to run without them."""
_RLC_RAMS = ("RLC_IRAM", "RLC_DRAM_BOOT")
_GFX11 = (
    "SDMA_UCODE_TH0", "SDMA_UCODE_TH1", "RS64_MEC", "RS64_MEC_P0_STACK", "IMU_I", "IMU_D", "RLC_G",
    *_RLC_RAMS, "RLC_P", "RLC_V",
)  # fmt: skip
_GFX12 = (
    "SDMA_UCODE_TH0", "RS64_PFP", "RS64_PFP_P0_STACK", "RS64_ME", "RS64_ME_P0_STACK", "RS64_MEC",
    "RS64_MEC_P0_STACK", "IMU_I", "IMU_D", "RLC_G", *_RLC_RAMS,
)  # fmt: skip
REQUIRED: Mapping[str, tuple[str, ...]] = {"gfx11": _GFX11, "gfx12": _GFX12, "gfx9": ()}
"""By family, what must have arrived before AUTOLOAD_RLC starts the graphics blocks."""

# src: psp_gfx_if.h enum psp_gfx_cmd_id
LOAD_TA, UNLOAD_TA, INVOKE_CMD, LOAD_ASD = 0x1, 0x2, 0x3, 0x4
SETUP_TMR, LOAD_IP_FW, DESTROY_TMR, BOOT_CFG = 0x5, 0x6, 0x7, 0x22
LOAD_TOC, AUTOLOAD_RLC, SPATIAL_PART = 0x20, 0x21, 0x27
# src: psp_gfx_if.h enum psp_gfx_crtl_cmd_id
INIT_RING, DESTROY_RINGS, MODE1_RESET, DESTROY_GPCOM_RING = 0x20000, 0x30000, 0x70000, 0xC0000
READY = 0x8000_0000
"""GFX_FLAG_RESPONSE; also the bootloader's."""
# src: psp_gfx_if.h PSP_ERR_UNKNOWN_COMMAND, enum tee_error_code; GlobalPlatform TEE Internal Core
# API 3.3.3 for the two others
UNKNOWN, NOT_SUPPORTED = 0x100, 0xFFFF_000A
BAD_PARAMETERS, SECURITY = 0xFFFF_0006, 0xFFFF_000F
BAD_STATE = 0xFFFF_0007
