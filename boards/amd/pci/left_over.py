"""What amdgpu leaves behind in a GPU: firmware that is alive, a ring, trusted memory."""

from __future__ import annotations

from boards.amd.pci.gpu import PciGpu
from boards.amd.pci.psp_names import KINDS, REQUIRED
from boards.amd.pci.vram import Guarded

_RING_FROM_END, _RING_BYTES = 80 << 20, 0x10000
_TMR_FROM_END, _TMR_BYTES = 48 << 20, 0x130_0000
_PSP_RING = (69, 70, 71)
_KEPT = (13, 0, 10)
"""Version of MP1 that amdgpu does not reset where there is no display, as on every board.
src: amdgpu_device.c amdgpu_device_init(): psp_gpu_reset(), for which PSP 13 has no function"""
_GFX942 = ("P2S_TABLE", "SDMA0", "CP_MEC", "CP_MEC_ME1", "RLC_G", "REG_LIST")


def leave_as_amdgpu(gpu: PciGpu) -> None:
    """The GPU as it is once its kernel driver has been bound: SOS and SMU answer.

    Whatever somebody else left is reset first. Its page tables, queues and interrupt ring are not
    made: only amdgpu could use them.
    """
    board = gpu.board
    prefix = "MPASP" if board.block("MP0").has("MPASP_SMN_C2PMSG_35") else "MP0"
    ring = board.mc_base + board.vram.nbytes - _RING_FROM_END
    if board.chip.ip["MP1"] == _KEPT and gpu.psp.ring.start not in (0, ring):
        board.find("amdgpu meets another driver's PSP ring", f"{gpu.psp.ring.start:#x}")
    gpu.forget()
    gpu.psp.boot.alive = True
    block = board.block("MP0")
    values = (ring & 0xFFFF_FFFF, ring >> 32, _RING_BYTES)
    for number, value in zip(_PSP_RING, values, strict=True):
        block.put(f"{prefix}_SMN_C2PMSG_{number}", value)
    gpu.psp.ring.adopt(ring, _RING_BYTES)
    if not board.vram.guarded:
        start = board.vram.nbytes - _TMR_FROM_END
        board.vram.guarded.append(Guarded(start, start + _TMR_BYTES))
    kinds = REQUIRED[board.chip.family] or _GFX942
    board.loaded.update(("SMU", "RLC_AUTOLOAD"), (kind for kind in KINDS.values() if kind in kinds))
    gpu.smu.enable_all()
