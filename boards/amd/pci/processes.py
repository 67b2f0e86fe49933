"""Processes that the scheduler runs: which VMID each has, and its page tables in the registers."""

from __future__ import annotations

from boards.amd.pci.board import Board
from boards.amd.pci.vm_hub import VmHub

_VALID = 1
_ALL_VA_HI = 0xF
"""The last page of 48 bits. src: gfxhub_v3_0_setup_vmid_config(): max_pfn - 1"""


class Processes:
    """VMIDs by process id (a PASID), out of those that SET_HW_RSRC left to the scheduler."""

    def __init__(self, board: Board, *hubs: VmHub, bounds: bool = True) -> None:
        """`bounds`: the scheduler also sets where the page tables begin and end."""
        self._board, self._hubs, self._bounds = board, hubs, bounds
        self._vmids: dict[int, int] = {}
        self._users: dict[int, int] = {}
        """Queues of a process that are mapped."""
        self._free: set[int] = set()
        board.on_reset(self._forget, core=True)

    def _forget(self) -> None:
        self._vmids.clear()
        self._users.clear()
        self._free.clear()

    def give(self, mask: int) -> None:
        """SET_HW_RSRC: which VMIDs of the graphics hub are the scheduler's."""
        self._free = {vmid for vmid in range(16) if mask >> vmid & 1} - set(self._vmids.values())

    def enter(self, pasid: int, root: int, control: int) -> int | None:
        """A queue of a process is mapped: its VMID; None when all are taken."""
        vmid = self._vmids.get(pasid)
        if vmid is None:
            if not self._free:
                return None
            vmid = min(self._free)
            self._free.discard(vmid)
            self._vmids[pasid] = vmid
        self._users[pasid] = self._users.get(pasid, 0) + 1
        self._set_up(vmid, pasid, root, control)
        return vmid

    def _set_up(self, vmid: int, pasid: int, root: int, control: int) -> None:
        """What firmware does with ADD_QUEUE's page_table_base_addr and vm_context_cntl."""
        base = root | _VALID
        values = {"BASE_ADDR_LO32": base & 0xFFFF_FFFF, "BASE_ADDR_HI32": base >> 32}
        if self._bounds:
            values |= {
                "START_ADDR_LO32": 0, "START_ADDR_HI32": 0,
                "END_ADDR_LO32": 0xFFFF_FFFF, "END_ADDR_HI32": _ALL_VA_HI,
            }  # fmt: skip
        for hub in self._hubs:
            prefix = f"{hub.names.vm}CONTEXT{vmid}_"
            for block in hub.blocks:
                for name, value in values.items():
                    block.put(f"{prefix}PAGE_TABLE_{name}", value)
                if control:
                    block.put(f"{prefix}CNTL", control)
        self._board.block("OSSSYS").put(f"IH_VMID_{vmid}_LUT", pasid)
        self._invalidate(vmid)

    def leave(self, pasid: int) -> None:
        """A queue of a process was removed; with the last one its VMID is free."""
        self._users[pasid] -= 1
        if self._users[pasid]:
            return
        vmid = self._vmids.pop(pasid)
        del self._users[pasid]
        self._free.add(vmid)
        self._board.block("OSSSYS").put(f"IH_VMID_{vmid}_LUT", 0)
        self._invalidate(vmid)

    def _invalidate(self, vmid: int) -> None:
        for hub in self._hubs:
            hub.invalidate(vmid)
