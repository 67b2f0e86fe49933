"""Protection faults of a hub: status and address registers, sticky until they are cleared."""

from __future__ import annotations

from dataclasses import dataclass

from boards.amd.memory.pages import EXECUTABLE, READABLE, SYSTEM, WRITEABLE
from boards.amd.pci.default_page import DefaultPage
from boards.amd.pci.page_walk import DIRECTORY, PAGE, RANGE
from boards.amd.pci.vm_hub import VmHub

# PERMISSION_FAULTS: which right was missing, as amdgpu's reports show it: 1 the page, 2 to read,
# 4 to write, 8 to execute. src: kfd_int_process_v11.c has the first three in the ring id's bits
_VALID, _READ, _WRITE, _EXECUTE = 1, 2, 4, 8
_RIGHTS = {"read": _READ, "write": _WRITE, "execute": _EXECUTE}
_NEEDS = {"read": READABLE, "write": WRITEABLE, "execute": EXECUTABLE}
# src: gfxhub_v3_0.c gfxhub_client_ids
CPC, TCP, SQC_CODE, SDMA0 = 5, 8, 9, 13
MM_SDMA0 = 256
"""Of a memory hub on gfx942. src: gmc_v9_0.c mmhub_client_ids_aldebaran"""
# src: gmc_v11_0_process_interrupt(): of src_data[1]
_WRITE_FAULT = 1 << 5
_PAGE_SHIFT, _LOW_BITS = 12, 32
_ENABLES = {_READ: "READ", _WRITE: "WRITE", _EXECUTE: "EXECUTE"}


@dataclass(frozen=True, slots=True)
class Fault:
    """A protection fault, as the interrupt ring reports it."""

    vmid: int
    ring_id: int
    words: tuple[int, int]
    reported: bool
    """Whether the context has its interrupt enabled."""


class FaultRegisters:
    """The last fault of a hub."""

    def __init__(self, hub: VmHub) -> None:
        self._hub, vm, block = hub, hub.names.vm, hub.first
        self._status = f"{vm}L2_PROTECTION_FAULT_STATUS"
        if not block.has(self._status):
            self._status += "_LO32"
        self._control = f"{vm}L2_PROTECTION_FAULT_CNTL"
        self._address = f"{vm}L2_PROTECTION_FAULT_ADDR"
        self._latched = False
        self._default = DefaultPage(hub)
        block.on_write(self._control, self._controlled)
        block.read_only(self._status, f"{self._address}_LO32", f"{self._address}_HI32")
        hub.board.on_reset(self._reset, core=hub.is_core)

    def _reset(self) -> None:
        self._latched = False

    def _controlled(self, value: int) -> None:
        """src: gmc_v11_0_process_interrupt(): writing the lowest bit forgets the fault"""
        layout = self._hub.first.table[self._control]
        if layout.get(value, "CLEAR_PROTECTION_FAULT_STATUS_ADDR"):
            self._latched = False
            for name in (self._status, f"{self._address}_LO32", f"{self._address}_HI32"):
                self._hub.first.put(name, 0)

    def report(self, vmid: int, va: int, access: str, client: int) -> Fault | None:
        """Latch a fault. None: the tables allow the access, and the bus does not."""
        walker, needs = self._hub.tlb(vmid).walker, _NEEDS[access]
        leaf = walker.walk(va)
        if leaf is not None and leaf.entry & needs and leaf.entry & SYSTEM:
            nbytes = 1 << _PAGE_SHIFT
            bus = leaf.pa + (va - leaf.va & -nbytes)
            if self._hub.board.dma(bus, nbytes, write=access == "write") is None:
                return None
        elif leaf is not None and leaf.entry & needs:
            self._hub.find("access refused", f"VMID {vmid}: {access} of {va:#x}, which is mapped")
        error = PAGE if leaf is not None else walker.missing.error
        missing = _RIGHTS[access] | (0 if leaf is not None else _VALID)
        self._latch(vmid, va, missing, error, client)
        kind = _kind(missing, error)
        self._default.redirect(vmid, va, access, kind)
        page = va >> _PAGE_SHIFT
        high = page >> _LOW_BITS & 0xF | (_WRITE_FAULT if access == "write" else 0)
        words = page & (1 << _LOW_BITS) - 1, high
        # src: gmc_v11_0_vm_fault_interrupt_state() enables them all
        reported = bool(self._hub.control(vmid, f"{kind}_PROTECTION_FAULT_ENABLE_INTERRUPT"))
        return Fault(vmid, missing << 3, words, reported)

    def _latch(self, vmid: int, va: int, missing: int, error: int, client: int) -> None:
        block, page = self._hub.first, va >> _PAGE_SHIFT
        later = "ALLOW_SUBSEQUENT_PROTECTION_FAULT_STATUS_ADDR_UPDATES"
        if self._latched and not block.field(self._control, later):
            block.put_field(self._status, "MORE_FAULTS", 1)
            return
        block.put(self._status, 0)
        for field, number in (
            ("MORE_FAULTS", int(self._latched)), ("WALKER_ERROR", error),
            ("PERMISSION_FAULTS", missing), ("MAPPING_ERROR", int(error == DIRECTORY)),
            ("CID", client), ("RW", int(bool(missing & _WRITE))), ("VMID", vmid),
        ):  # fmt: skip
            block.put_field(self._status, field, number)
        block.put(f"{self._address}_LO32", page & (1 << _LOW_BITS) - 1)
        block.put(f"{self._address}_HI32", page >> _LOW_BITS & 0xF)
        self._latched = True


def _kind(missing: int, error: int) -> str:
    """The kind of fault, as CONTEXTn_CNTL and L2_PROTECTION_FAULT_CNTL call it."""
    if error == RANGE:
        return "RANGE"
    if error == DIRECTORY:
        return "PDE0"
    return "VALID" if missing & _VALID else _ENABLES[missing & ~_VALID]
