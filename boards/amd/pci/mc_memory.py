"""Memory as the security processor and the power controller reach it: by memory-controller address.

VRAM lies in the frame buffer's aperture. Everything else goes through the GART, which is VMID 0 of
the memory hub: amdgpu keeps firmware there unless debug_mask says otherwise (amdgpu_psp.c
psp_sw_init(), amdgpu_ucode.c amdgpu_ucode_create_bo()).
"""

from __future__ import annotations

from boards.amd.pci.board import Board
from boards.amd.pci.vm_hub import VmHub
from boards.amd.wave.types import MemoryFault


class McMemory:
    """Reads and writes of one agent; None and False where nothing is."""

    def __init__(self, board: Board, name: str) -> None:
        self._board, self._name = board, name
        self.hub: VmHub | None = None
        """The memory hub; it is put together later than this."""

    def in_vram(self, address: int, nbytes: int) -> bool:
        """Whether an address needs no page table."""
        return self._board.vram_offset(address, nbytes) is not None

    def read(self, address: int, nbytes: int) -> bytes | None:
        """Bytes at an address; None: it is neither all VRAM nor mapped by the GART."""
        off = self._board.vram_offset(address, nbytes)
        if off is not None:
            return self._board.vram.bytes[off : off + nbytes].tobytes()
        hub = self._gart()
        if hub is None:
            return None
        try:
            agent = hub.space(0).agent(self._name)
            agent.acquire()
            return agent.read(address, nbytes)
        except MemoryFault:
            return None
        finally:
            hub.after_queues_ran()

    def write(self, address: int, data: bytes) -> bool:
        """Whether all of it is there now."""
        off = self._board.vram_offset(address, len(data))
        if off is not None:
            self._board.vram.place(off, data)
            return True
        hub = self._gart()
        if hub is None:
            return False
        try:
            agent = hub.space(0).agent(self._name)
            agent.write(address, data)
            agent.release()
        except MemoryFault:
            return False
        finally:
            hub.after_queues_ran()
        return True

    def _gart(self) -> VmHub | None:
        """The hub, when VMID 0 has page tables."""
        hub = self.hub
        if hub is None or not hub.set_up() or hub.context(0) is None:
            return None
        hub.before_queues_run()
        return hub
