"""The security processor's ring: commands in VRAM, each answered before the next is sent.

Source of layouts and numbers: Linux 6.12, psp_gfx_if.h; of the handshake: psp_v13_0.c
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.layout import PSP_COMMAND, PSP_FENCE, PSP_RING
from drivers.amd.pci.psp_message import READY, halves
from drivers.bare.ahead import expect
from drivers.base.deadline import polls
from drivers.base.errors import DeviceTimeout, FirmwareRejected

_ANSWER: Final = 0x8000FFFF
"""The bit above and the error code."""
_DESTROY_RINGS, _RING_TYPE_KM = 0x30000, 2
_TYPE_SHIFT: Final = 16
_SETTLE_S: Final = 0.02
"""After a command of the ring's register. src: psp_v13_0_ring_create(), mdelay(20)"""
_RING_TIMEOUT_S: Final = 2.0
_COMMAND_TIMEOUT_S: Final = 20.0
"""src: amdgpu_device.c, psp_timeout: 20000 polls of 60 to 100 us at least"""
FRAME_BYTES: Final = 64
FRAME_DW: Final = FRAME_BYTES // 4
_FRAME: Final = struct.Struct("<6I40x")
_COMMAND_BYTES: Final = 1024
_NO_SIZE: Final = 0
"""cmd_buf_size of a frame. # src: amdgpu_psp.c psp_ring_cmd_submit() leaves it at 0"""
_COMMAND_ID_AT, _ARGUMENTS_AT, _ANSWER_AT = 8, 28, 864
_STATUS_AT, _TMR_SIZE_AT = 0, 16
_BEHIND_FENCE: Final = tuple(
    PSP_COMMAND.offset + _ANSWER_AT + at for at in (_STATUS_AT, _TMR_SIZE_AT)
)


class Command(IntEnum):
    """Commands of the ring. src: psp_gfx_if.h, enum psp_gfx_cmd_id"""

    SETUP_TMR = 0x5
    LOAD_IP_FW = 0x6
    LOAD_TOC = 0x20
    AUTOLOAD_RLC = 0x21
    SRIOV_SPATIAL_PART = 0x27


class PspRing:
    """The kernel-mode ring, at its place in the boot's VRAM."""

    def __init__(self, gpu: BareGpu) -> None:
        self._gpu = gpu
        self._block = gpu.block(HwId.MP0)
        self._write_dw = 0
        self._fence = 0

    def create(self) -> None:
        """Give sOS the ring's address; one that is left over goes first. Raises: DeviceTimeout."""
        block = self._block
        if block.read("C2PMSG_71"):
            self.destroy()
        block.wait("C2PMSG_64", READY, READY, _RING_TIMEOUT_S)
        self._gpu.vram.write(PSP_FENCE.offset, bytes(FRAME_BYTES))
        block.write_pair("C2PMSG_69", "C2PMSG_70", self._gpu.mc_address(PSP_RING))
        block.write("C2PMSG_71", PSP_RING.nbytes)
        block.write("C2PMSG_64", _RING_TYPE_KM << _TYPE_SHIFT)
        self._gpu.mmio.bus.clock.sleep(_SETTLE_S)
        block.wait("C2PMSG_64", _ANSWER, READY, _RING_TIMEOUT_S)
        self._write_dw = block.read("C2PMSG_67")

    def destroy(self) -> None:
        """sOS forgets the ring. Raises: DeviceTimeout."""
        self._block.write("C2PMSG_64", _DESTROY_RINGS)
        self._gpu.mmio.bus.clock.sleep(_SETTLE_S)
        self._block.wait("C2PMSG_64", READY, READY, _RING_TIMEOUT_S)

    def send(self, command: Command, *arguments: int, what: str = "") -> int:
        """One command and its answer: the size of the trusted memory, for LOAD_TOC.

        Raises: FirmwareRejected with the status when sOS refuses; DeviceTimeout when it is mute.
        """
        gpu, vram = self._gpu, self._gpu.vram
        self._fence += 1
        body = bytearray(_COMMAND_BYTES)
        struct.pack_into("<I", body, _COMMAND_ID_AT, command)
        struct.pack_into(f"<{len(arguments)}I", body, _ARGUMENTS_AT, *arguments)
        vram.write(PSP_COMMAND.offset, bytes(body))
        at, fence = gpu.mc_address(PSP_COMMAND), gpu.mc_address(PSP_FENCE)
        frame = _FRAME.pack(*halves(at), _NO_SIZE, *halves(fence), self._fence)
        ring_dw = PSP_RING.nbytes // 4
        vram.write(PSP_RING.offset + self._write_dw % ring_dw * 4, frame)
        gpu.flush_writes()
        self._write_dw = (self._write_dw + FRAME_DW) % ring_dw
        self._block.write("C2PMSG_67", self._write_dw)
        label = f"{command.name} {what}".rstrip()
        self._await_fence(label)
        status = vram.read32(PSP_COMMAND.offset + _ANSWER_AT + _STATUS_AT)
        if status:
            raise FirmwareRejected(
                f"{gpu.mmio.step}: the security processor answers {label} with {status:#x}",
                hint="See `python -m drivers.firmware`; open the GPU again, it is then reset first",
            )
        return vram.read32(PSP_COMMAND.offset + _ANSWER_AT + _TMR_SIZE_AT)

    def _await_fence(self, label: str) -> None:
        last = 0
        for _ in polls(_COMMAND_TIMEOUT_S, self._gpu.mmio.bus.clock):
            expect(self._gpu.vram, PSP_FENCE.offset, *_BEHIND_FENCE)
            last = self._gpu.vram.read32(PSP_FENCE.offset)
            if last == self._fence:
                return
        raise DeviceTimeout(
            f"{self._gpu.mmio.step}: no answer in the PSP fence to {label} "
            f"after {_COMMAND_TIMEOUT_S} s",
            register="PSP fence",
            last=last,
            hint="Open the GPU again: it is then reset first",
        )
