"""Page faults and other trouble: what interrupts and fault registers say, in the device's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from drivers.amd.pci.ih import Cause, Entry
from drivers.amd.pci.registers import Version
from drivers.gpu.incident import ECC, Incident, PageFault

# PERMISSION_FAULTS says which bits the entry lacked. # src: kernel.org, GPU Debugging (amdgpu)
LACKS_VALID, LACKS_READ, LACKS_WRITE, LACKS_EXECUTE = 1, 2, 4, 8
# What the ring id of a fault's interrupt says. # src: kfd_int_process_v11.c, prot_valid and others
_RING_VALID, _RING_READ, _RING_WRITE = 0x08, 0x10, 0x20
_WRITE: Final = 0x20
"""In the second word of a fault's interrupt. # src: gmc_v11_0_process_interrupt(), write_fault"""
_PAGE_SHIFT: Final = 12
_HIGH_SHIFT, _HIGH_MASK = 44, 0xF
# Who asked. # src: gfxhub_v3_0.c, gfxhub_v12_0.c gfxhub_client_ids; gmc_v9_0.c, both tables
_GFX9 = ("CB", "DB", "IA", "WD", "CPF", "CPC", "CPG", "RLC", "TCP", "SQC (inst)", "SQC (data)",
         "SQG", "PA")  # fmt: skip
_GFX11 = ("CB/DB", "", "GE1", "GE2", "CPF", "CPC", "CPG", "RLC", "TCP", "SQC (inst)", "SQC (data)",
          "SQG", "", "SDMA0", "SDMA1", "GCR", "SDMA2", "SDMA3")  # fmt: skip
_GFX12 = ("CB", "DB", "GE1", "GE2", "CPF", "CPC", "CPG", "RLC", "TCP", "SQC (inst)", "SQC (data)",
          "SQG/PC/SC", "", "SDMA0", "SDMA1", "GCR", "", "", "WGS", "DSM", "PA")  # fmt: skip
_CLIENTS: Final = {9: _GFX9, 11: _GFX11, 12: _GFX12}
_MMHUB9_SDMA: Final = 256
"""The first copy engine among MMHUB's clients on gfx942; four on each die."""
_MMHUB9_ENGINES: Final = 5
WAVE_ERRORS: Final = {0: ECC, 1: "illegal instruction", 2: "memory violation", 3: ECC}
"""# src: kfd_int_process_v11.c SQ_INTERRUPT_ERROR_TYPE_*"""
_WAVE_ERROR: Final = 2


@dataclass(frozen=True, slots=True)
class Fault:
    """A page fault, whose address is its page's."""

    vmid: int
    page: PageFault
    more: bool
    """Others came after it and were not kept."""


def client_name(gc: Version, memory: bool, cid: int) -> str:
    """The unit behind a client id of a hub; "" where it is not known."""
    if memory:
        engine = cid - _MMHUB9_SDMA
        return f"SDMA{engine}" if gc[0] == 9 and 0 <= engine < _MMHUB9_ENGINES else ""
    names = _CLIENTS.get(gc[0], ())
    return names[cid] if cid < len(names) else ""


def _kind(lacks: int) -> str:
    if lacks & LACKS_VALID or not lacks:
        return "unmapped"
    if lacks & LACKS_EXECUTE:
        return "no-execute"
    return "read-only" if lacks & LACKS_WRITE else "memory"


def decode_status(gc: Version, memory: bool, status: Mapping[str, int], va: int) -> Fault:
    """A fault from the fields of L2_PROTECTION_FAULT_STATUS; `memory`: of a memory hub."""
    lacks = status["permission_faults"]
    access = "write" if status["rw"] else "read"
    name = client_name(gc, memory, status["cid"])
    page = PageFault(va, _kind(lacks), access, client=name)
    return Fault(status["vmid"], page, bool(status["more_faults"]))


def decode_entry(entry: Entry) -> Fault:
    """A fault from its interrupt alone: no unit, and no difference between kinds of reading."""
    low, high = entry.data[0], entry.data[1]
    va = low << _PAGE_SHIFT | (high & _HIGH_MASK) << _HIGH_SHIFT
    write = bool(high & _WRITE)
    if entry.ring & _RING_VALID:
        kind = "unmapped"
    elif entry.ring & _RING_WRITE:
        kind = "read-only"
    else:
        kind = "memory" if entry.ring & _RING_READ else "unmapped"
    return Fault(entry.vmid, PageFault(va, kind, "write" if write else "read"), more=False)


def merged(entry: Entry, status: Fault | None) -> Fault:
    """The registers know more than the interrupt, if they hold the same fault."""
    reported = decode_entry(entry)
    same = status is not None and (status.vmid, status.page.gpu_va) == (
        reported.vmid,
        reported.page.gpu_va,
    )
    return status if status is not None and same else reported


def wave_error(gc: Version, entry: Entry) -> str:
    """What stopped a wave; "" when it is no error but a message of its trap handler.

    # src: kfd_int_process_v11.c SQ_INTERRUPT_WORD*; v9.c the same, of which tinygrad's
    interrupt_handler() has the places of gfx9
    """
    low, high = entry.data[0], entry.data[1]
    if gc[0] == 9:
        detail = low & 0xFFF | low >> 16 & 0xF000 | high << 16 & 0xFF_0000
        encoding, kind = low >> 26 & 3, detail >> 20 & 0xF
    else:
        encoding, kind = high >> 6 & 3, low >> 21 & 0xF
    return WAVE_ERRORS.get(kind, f"wave error {kind}") if encoding == _WAVE_ERROR else ""


def stopped(gc: Version, entry: Entry) -> str:
    """Why a queue stopped, if this interrupt says so: "bad packet", "illegal instruction"..."""
    if entry.cause is Cause.WAVE:
        return wave_error(gc, entry)
    return entry.cause.value if entry.cause in (Cause.BAD_PACKET, Cause.BAD_INSTRUCTION) else ""


def trouble(fault: Fault) -> Incident:
    """As the device hears of it."""
    return Incident(page=fault.page)
