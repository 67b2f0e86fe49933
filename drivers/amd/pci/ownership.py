"""Whose state a GPU is in, by its scratch registers and its security processor.

SCRATCH_REG7: a magic number with the version of what we keep in VRAM; SCRATCH_REG6: whether
the GPU is in use. A reset clears both, and so does another driver's boot.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from drivers.amd.pci import psp
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hwid import HwId
from drivers.base.errors import Unsupported

MAGIC: Final = 0x5542_0002
""""UB" and the version of what a warm boot keeps: layout.py, and the registers of the memory hub.
Another version is another owner."""
INSIDE, LEFT = 1, 2


class Found(Enum):
    """What the GPU was found as, and hence how it is booted."""

    COLD = "not booted"
    WARM = "left cleanly by its previous owner"
    CRASHED = "previous owner exited without cleanup"
    FOREIGN = "booted by another driver"


def look(gpu: BareGpu) -> Found:
    """Hardware: one read, three where it has been booted."""
    if not psp.is_alive(gpu):
        return Found.COLD
    block = gpu.block(HwId.GC, gpu.xccs[0])
    if block.read("SCRATCH_REG7", ones=True) != MAGIC:
        return Found.FOREIGN
    return Found.WARM if block.read("SCRATCH_REG6", ones=True) == LEFT else Found.CRASHED


def enter(gpu: BareGpu) -> None:
    """Mark the GPU as in use; found without an owner, the mark means that he was killed."""
    block = gpu.block(HwId.GC, gpu.xccs[0])
    block.write("SCRATCH_REG6", INSIDE)
    block.write("SCRATCH_REG7", MAGIC)


def leave(gpu: BareGpu) -> None:
    """Mark the GPU as left cleanly: the next owner boots warm."""
    gpu.block(HwId.GC, gpu.xccs[0]).write("SCRATCH_REG6", LEFT)


def forget(gpu: BareGpu) -> None:
    """The state has no owner: the next boot resets the GPU first."""
    gpu.block(HwId.GC, gpu.xccs[0]).write("SCRATCH_REG7", 0)


def refuse_hive(gpu: BareGpu) -> None:
    """Raises: Unsupported for one of several GPUs that XGMI joins."""
    hub = gpu.block(HwId.MMHUB)
    if "MC_VM_XGMI_LFB_CNTL" not in hub:
        return
    others = hub.fields("MC_VM_XGMI_LFB_CNTL")["pf_max_region"]
    if others and hub.fields("MC_VM_XGMI_LFB_SIZE")["pf_lfb_size"]:
        raise Unsupported(
            f"{gpu.address} is one of {others + 1} GPUs of an XGMI hive, which can only be reset "
            "together",
            hint="Use AMD_IFACE=KFD for it",
        )
