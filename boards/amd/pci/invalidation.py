"""Invalidation engines of a hub: a request names VMIDs and what to forget of them."""

from __future__ import annotations

from boards.amd.pci.register_file import Block
from boards.amd.pci.vm_hub import VMIDS, VmHub

ENGINES = 18
# src: gfxhub_v3_0_get_invalidate_req(): what a request of the kernel asks for
_EVERYTHING = (
    "INVALIDATE_L2_PTES", "INVALIDATE_L2_PDE0", "INVALIDATE_L2_PDE1", "INVALIDATE_L2_PDE2",
    "INVALIDATE_L1_PTES",
)  # fmt: skip
_SCHEDULERS = ("KIQ", "MES")
"""They take no semaphore. src: gmc_v11_0_flush_gpu_tlb(): amdgpu_gmc_fw_reg_write_reg_wait()"""
_ALL_PAGES = 0x1F_FFFF_FFFF
"""src: gfxhub_v3_0_program_invalidation()"""


class Invalidation:
    """The engines of one instance of a hub."""

    def __init__(self, hub: VmHub, block: Block, pending: dict[int, set[int]]) -> None:
        self._hub, self._block, self._prefix = hub, block, hub.names.vm
        self._held: set[int] = set()
        self._asked: dict[int, int] = {}
        """Engine to VMIDs that it is at work on: until its acknowledgement is read."""
        self._pending = pending
        """Of each VMID, the instances that have not forgotten it since another one did."""
        self._layout = block.table[f"{self._prefix}INVALIDATE_ENG17_REQ"]
        """The headers give the fields of this one, which the kernel uses; all are alike."""
        self._semaphores = hub.name == "MMHUB" and hub.board.chip.family != "gfx9"
        """Whether the kernel takes one. src: gmc_v11_0_use_invalidate_semaphore(), gmc_v9_0..."""
        for engine in range(ENGINES):
            self._attach(engine)
        hub.board.on_reset(self._reset, core=hub.is_core)

    def _reset(self) -> None:
        self._held.clear()
        self._asked.clear()

    def _name(self, engine: int, what: str) -> str:
        return f"{self._prefix}INVALIDATE_ENG{engine}_{what}"

    def _attach(self, engine: int) -> None:
        block = self._block
        block.on_write(self._name(engine, "REQ"), lambda value: self._request(engine, value))
        block.on_read(self._name(engine, "SEM"), lambda: self._take(engine))
        block.on_write(self._name(engine, "SEM"), lambda value: self._give(engine, value))
        block.on_read(self._name(engine, "ACK"), lambda: self._acknowledge(engine))
        block.read_only(self._name(engine, "ACK"))

    def _take(self, engine: int) -> int:
        """A read that gives 1 has taken the semaphore."""
        if engine in self._held:
            return 0
        self._held.add(engine)
        return 1

    def _give(self, engine: int, value: int) -> None:
        if value == 0:
            self._held.discard(engine)

    def _request(self, engine: int, value: int) -> None:
        hub, layout = self._hub, self._layout
        if not hub.board.engine:
            hub.board.need_flushed(f"{hub.name}, invalidation by engine {engine}")
        by_scheduler = hub.board.engine in _SCHEDULERS
        if self._semaphores and not by_scheduler and engine not in self._held:
            hub.find("invalidation", f"engine {engine} is used and its semaphore is not held")
        vmids = layout.get(value, "PER_VMID_INVALIDATE_REQ")
        self._block.put(self._name(engine, "ACK"), vmids)
        self._asked.pop(engine, None)
        if layout.get(value, "CLEAR_PROTECTION_FAULT_STATUS_ADDR"):
            hub.find("invalidation", "a request that also forgets the last fault")
        if not vmids:
            hub.find("invalidation", f"engine {engine} is asked to invalidate no VMID")
        left = [name for name in _EVERYTHING if not layout.get(value, name)]
        if left:
            hub.find("invalidation", f"engine {engine} was not given all flush bits: {left[0]}")
        elif self._range(engine) != _ALL_PAGES:
            hub.find("invalidation", f"engine {engine} has an address range that is not everything")
        else:
            self._asked[engine] = vmids

    def _acknowledge(self, engine: int) -> int:
        """What was asked for happens at the latest moment: when a driver that waits sees it."""
        vmids = self._asked.pop(engine, 0)
        for vmid in range(VMIDS):
            if vmids >> vmid & 1:
                self._forgotten(vmid)
        return self._block.get(self._name(engine, "ACK"))

    def _range(self, engine: int) -> int:
        low = self._block.get(self._name(engine, "ADDR_RANGE_LO32"))
        return low | self._block.get(self._name(engine, "ADDR_RANGE_HI32")) << 32

    def _forgotten(self, vmid: int) -> None:
        """This instance has forgotten a VMID; the hub has when all have."""
        waiting = self._pending.setdefault(vmid, {block.instance for block in self._hub.blocks})
        waiting.discard(self._block.instance)
        if not waiting:
            del self._pending[vmid]
            self._hub.invalidate(vmid)


def attach(hub: VmHub) -> None:
    """Engines for every instance of a hub."""
    pending: dict[int, set[int]] = {}
    hub.board.on_reset(pending.clear, core=hub.is_core)
    for block in hub.blocks:
        Invalidation(hub, block, pending)
