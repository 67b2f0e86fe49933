"""The interrupt ring: what engines report, read from memory.

The ring and its write pointer lie in VRAM; the hardware writes both. Polling reads no register;
what was read is acknowledged with one write. Ring 1 would take retried faults: there are none.

Source: Linux 6.12, ih_v6_0.c, ih_v7_0.c, vega20_ih.c, amdgpu_ih.c
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.layout import IH_POINTERS, IH_RING
from drivers.bare.mmio import Block

if TYPE_CHECKING:
    from drivers.amd.pci.gpu import BareGpu

ENTRY_BYTES: Final = 32
_WORDS: Final = struct.Struct("<8I")
_POINTER_MASK: Final = IH_RING.nbytes - ENTRY_BYTES
_OVERFLOW: Final = 1
_FB_SPACE: Final = 4
"""MC_SPACE: addresses are the memory controller's. # src: ih_v6_0_rb_cntl()"""
_STORM_DELAY: Final = 3
_BASE_SHIFT, _BASE_HIGH_SHIFT = 8, 40


class Cause(Enum):
    """What an interrupt is about, as far as a compute device cares."""

    END_OF_PIPE = "end of pipe"
    COPY = "copy engine's trap"
    PAGE_FAULT = "page fault"
    BAD_PACKET = "bad packet"
    BAD_INSTRUCTION = "illegal instruction"
    WAVE = "wave"
    OTHER = "other"


_CP, _SE0, _SE3, _GFX, _UTCL2, _VMC = 0x14, 0x0A, 0x0D, 0x0A, 0x1B, 0x12
"""Clients. # src: soc15_ih_clientid.h; GFX of gfx11 has the number of SE0SH of gfx9"""
_SDMA9: Final = frozenset({0x08, 0x09, 0x01, 0x04, 0x05, 0x11, 0x13, 0x18})
_CP_SOURCES: Final = {
    181: Cause.END_OF_PIPE, 183: Cause.BAD_PACKET, 180: Cause.BAD_PACKET,
    184: Cause.BAD_PACKET, 185: Cause.BAD_INSTRUCTION, 239: Cause.WAVE,
}  # fmt: skip
"""# src: irqsrcs_gfx_11_0_0.h, irqsrcs_gfx_9_0.h: EOP, bad opcode, reserved bits, privileged
register, privileged or illegal instruction"""
_SQ_SOURCE: Final = 239
_SDMA_TRAP9, _SDMA_TRAP11 = 224, 49


@dataclass(frozen=True, slots=True)
class Entry:
    """One interrupt. # src: amdgpu_ih_decode_iv_helper()"""

    client: int
    source: int
    ring: int
    vmid: int
    memory_hub: bool
    """Which hub's VMID it is."""
    timestamp: int
    pasid: int
    node: int
    data: tuple[int, int, int, int]
    cause: Cause


def _cause(major: int, client: int, source: int) -> Cause:
    if client in (_VMC, _UTCL2):
        return Cause.PAGE_FAULT if source == 0 else Cause.OTHER
    if client == _CP:
        return _CP_SOURCES.get(source, Cause.OTHER)
    if major == 9:
        if client in _SDMA9:
            return Cause.COPY if source == _SDMA_TRAP9 else Cause.OTHER
        is_wave = _SE0 <= client <= _SE3 and source == _SQ_SOURCE
        return Cause.WAVE if is_wave else Cause.OTHER
    if client == _GFX:
        known = {0: Cause.PAGE_FAULT, _SDMA_TRAP11: Cause.COPY, _SQ_SOURCE: Cause.WAVE}
        return known.get(source, Cause.OTHER)
    return Cause.OTHER


def decode(major: int, data: bytes) -> Entry:
    """An entry of a chip whose graphics core has that major version."""
    words = _WORDS.unpack(data)
    client, source = words[0] & 0xFF, words[0] >> 8 & 0xFF
    return Entry(
        client, source, ring=words[0] >> 16 & 0xFF, vmid=words[0] >> 24 & 0xF,
        memory_hub=bool(words[0] >> 31), timestamp=words[1] | (words[2] & 0xFFFF) << 32,
        pasid=words[3] & 0xFFFF, node=words[3] >> 16 & 0xFF, data=words[4:8],
        cause=_cause(major, client, source),
    )  # fmt: skip


def _control(gpu: BareGpu, ih: Block, **more: int) -> int:
    return ih.encode(
        "IH_RB_CNTL", mc_space=_FB_SPACE, wptr_overflow_enable=1, wptr_writeback_enable=1,
        rb_size=(IH_RING.nbytes // 4).bit_length() - 1, mc_snoop=1,
        rptr_rearm=int(gpu.session.interrupts), **more,
    )  # fmt: skip


def up(gpu: BareGpu) -> None:
    """An empty ring; with MSI where the session has it."""
    ih = gpu.block(HwId.OSSSYS)
    ring, pointers = gpu.mc_address(IH_RING), gpu.mc_address(IH_POINTERS)
    ih.write("IH_RB_CNTL", _control(gpu, ih))
    gpu.vram.write64(IH_POINTERS.offset, 0)  # an earlier owner's ring may have run until now
    gpu.flush_writes()
    ih.write("IH_RB_BASE", ring >> _BASE_SHIFT & 0xFFFF_FFFF)
    ih.write("IH_RB_BASE_HI", ring >> _BASE_HIGH_SHIFT)
    ih.write_pair("IH_RB_WPTR_ADDR_LO", "IH_RB_WPTR_ADDR_HI", pointers)
    ih.write("IH_RB_WPTR", 0)
    ih.write("IH_RB_RPTR", 0)
    ih.write("IH_DOORBELL_RPTR", 0)
    if "IH_MSI_STORM_CTRL" in ih:
        ih.update("IH_STORM_CLIENT_LIST_CNTL", client18_is_storm_client=1)
        ih.update("IH_INT_FLOOD_CNTL", flood_cntl_enable=1)
        ih.update("IH_MSI_STORM_CTRL", delay=_STORM_DELAY)
    gpu.interrupt_rptr = 0
    interrupts = int(gpu.session.interrupts)
    for clear in (1, 0):  # the overflow is cleared by a change from 0 to 1
        ih.write("IH_RB_CNTL", _control(gpu, ih, rb_enable=1, wptr_overflow_clear=clear))
    ih.write("IH_RB_CNTL", _control(gpu, ih, rb_enable=1, enable_intr=interrupts))


def down(gpu: BareGpu) -> None:
    """No more interrupts, and nothing written to the ring."""
    ih = gpu.block(HwId.OSSSYS)
    ih.write("IH_RB_CNTL", _control(gpu, ih))
    ih.write("IH_RB_RPTR", 0)
    ih.write("IH_RB_WPTR", 0)


def poll(gpu: BareGpu) -> list[Entry]:
    """What came since the last call, the oldest first. After an overflow the oldest are lost."""
    raw = gpu.vram.read32(IH_POINTERS.offset)
    if raw & _OVERFLOW:
        raw = _overflow(gpu)
    wptr, rptr = raw & _POINTER_MASK, gpu.interrupt_rptr
    if wptr == rptr:
        return []
    end = wptr if wptr > rptr else IH_RING.nbytes
    data = gpu.vram.read(IH_RING.offset + rptr, end - rptr)
    if wptr < rptr and wptr:
        data += gpu.vram.read(IH_RING.offset, wptr)
    gpu.interrupt_rptr = wptr
    gpu.block(HwId.OSSSYS).write("IH_RB_RPTR", wptr)
    major = gpu.gc_version[0]
    return [decode(major, data[at : at + ENTRY_BYTES]) for at in range(0, len(data), ENTRY_BYTES)]


def _overflow(gpu: BareGpu) -> int:
    """Start again behind what is being overwritten. src: ih_v6_0_get_wptr()"""
    ih = gpu.block(HwId.OSSSYS)
    raw = ih.read("IH_RB_WPTR")
    if raw & _OVERFLOW:
        gpu.interrupt_rptr = raw + ENTRY_BYTES & _POINTER_MASK
        interrupts = int(gpu.session.interrupts)
        for clear in (1, 0):
            value = _control(gpu, ih, rb_enable=1, enable_intr=interrupts,
                             wptr_overflow_clear=clear)  # fmt: skip
            ih.write("IH_RB_CNTL", value)
    return raw
