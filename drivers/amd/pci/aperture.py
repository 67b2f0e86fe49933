"""Where the GPU's engines see VRAM when they use no page table."""

from __future__ import annotations

from typing import Final

from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hwid import HwId
from drivers.base.errors import Unsupported

_FB_SHIFT: Final = 24
"""Unit of FB_LOCATION and of XGMI_LFB_SIZE. src: mmhub_v3_0.c, gfxhub_v1_1.c"""
_FB_MASK: Final = 0xFFFFFF


def locate(gpu: BareGpu) -> None:
    """Fill in `mc_base` and `physical_base`: firmware has put VRAM where it is.

    Hardware: one read; three where there is XGMI. Raises: Unsupported for a member of a hive.
    """
    hub = gpu.block(HwId.MMHUB)
    base = (hub.read("MC_VM_FB_LOCATION_BASE") & _FB_MASK) << _FB_SHIFT
    gpu.physical_base = 0
    if "MC_VM_XGMI_LFB_CNTL" in hub:
        cntl = hub.fields("MC_VM_XGMI_LFB_CNTL")
        segment = hub.fields("MC_VM_XGMI_LFB_SIZE")["pf_lfb_size"] << _FB_SHIFT
        if segment and cntl["pf_max_region"]:
            raise Unsupported(
                f"{gpu.address} is one of {cntl['pf_max_region'] + 1} GPUs of an XGMI hive, "
                "which can only be reset together",
                hint="Use AMD_IFACE=KFD for it",
            )
        gpu.physical_base = segment * cntl["pf_lfb_region"]
    gpu.mc_base = base + gpu.physical_base
