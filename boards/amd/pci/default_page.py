"""The default page of a hub: where accesses that fault go once their fault is latched.

src: gfxhub_v3_0.c gfxhub_v3_0_set_fault_enable_default(): "redirects VM faults to the default
page"; amdgpu_gart.c: amdgpu's is a page of the host, mapped for DMA, and every hub that is given
it as such has ENABLE_DEFAULT_PAGE_OUT_TO_SYSTEM_MEMORY set. Without that bit the page is VRAM.
"""

from __future__ import annotations

import numpy as np

from boards.amd.pci.vm_hub import VmHub
from boards.machine.pool import Pool

MARK = bytes.fromhex("fa017edd00c0ffee")
"""What a store leaves there: its own bytes are not known here."""
_PAGE_SHIFT, _PAGE_BYTES = 12, 1 << 12


class DefaultPage:
    """Redirected accesses, and whether the page is memory that the driver owns."""

    def __init__(self, hub: VmHub) -> None:
        self._hub, vm = hub, hub.names.vm
        self._l2, self._control = f"{vm}L2_CNTL", f"{vm}L2_PROTECTION_FAULT_CNTL"

    def redirect(self, vmid: int, va: int, access: str, kind: str) -> None:
        """An access that faulted. `kind`: RANGE, PDE0, VALID, READ, WRITE or EXECUTE."""
        hub, field = self._hub, f"{kind}_PROTECTION_FAULT_ENABLE_DEFAULT"
        if not (hub.first.field(self._control, field) or hub.control(vmid, field)):
            return
        page = hub.vm("L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32")
        page |= hub.vm("L2_PROTECTION_FAULT_DEFAULT_ADDR_HI32") << 32
        address, write = page << _PAGE_SHIFT, access == "write"
        on_bus = hub.first.field(self._l2, "ENABLE_DEFAULT_PAGE_OUT_TO_SYSTEM_MEMORY")
        found = self._on_bus(address, write=write) if on_bus else self._in_vram(address)
        if found is None:
            where = f"{'bus address' if on_bus else 'VRAM'} {address:#x}"
            hub.find("default page", f"VMID {vmid}: {access} of {va:#x} goes to {where}, which is "
                     "no memory of the driver's")  # fmt: skip
        elif write:
            pool, start = found
            at = start + (va & _PAGE_BYTES - len(MARK))
            pool.bytes[at : at + len(MARK)] = np.frombuffer(MARK, np.uint8)

    def _on_bus(self, address: int, *, write: bool) -> tuple[Pool, int] | None:
        board = self._hub.board
        if not board.bus_master_on():
            return None
        return board.bus.decode(address, _PAGE_BYTES, write)

    def _in_vram(self, address: int) -> tuple[Pool, int] | None:
        vram, off = self._hub.board.vram, address - self._hub.vram_pa
        outside = off < 0 or off + _PAGE_BYTES > vram.nbytes
        return None if outside or vram.is_guarded(off, _PAGE_BYTES) else (vram, off)
