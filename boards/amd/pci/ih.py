"""The interrupt handler: entries into a ring in memory, its write pointer, an interrupt message."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from boards.amd.pci.board import Board
from boards.amd.pci.register_file import Block
from boards.amd.pci.vm_hub import VmHub
from boards.amd.wave.types import MemoryFault
from boards.machine.pool import Pool

ENTRY_BYTES = 32
_WORD_BITS, _WORD = 32, 0xFFFF_FFFF
# src: ih_v6_0_rb_cntl(): MC_SPACE 2 is an address on the bus, 4 one of the memory controller;
# vega20_ih_rb_cntl(), vega20_ih_irq_init(): on gfx9 it is 1, if IH_CHICKEN allows it
_BUS, _BUS_9, _MEMORY = 2, 1, 4
_OVERFLOW = 1
"""RB_OVERFLOW of IH_RB_WPTR"""
_WHILE_OFF = (
    "IH_RB_BASE", "IH_RB_BASE_HI", "IH_RB_WPTR", "IH_RB_WPTR_ADDR_LO", "IH_RB_WPTR_ADDR_HI",
)  # fmt: skip
"""src: ih_v6_0_irq_init(), ih_v6_0_toggle_ring_interrupts(): the ring is off meanwhile"""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a block reports to the host. src: amdkfd/soc15_int.h"""

    client: int
    source: int
    ring_id: int = 0
    vmid: int = 0
    node: int = 0
    words: tuple[int, ...] = ()
    """Context words, four at most."""


class Ih:
    """Ring 0. Ring 1, which amdgpu sends retry faults to, is registers alone."""

    def __init__(self, board: Board, block: Block, hub: VmHub) -> None:
        self._board, self._block, self._hub = board, block, hub
        self._cleared, self._armed = False, True
        self._read = 0
        """The read pointer before it was last written."""
        block.on_write("IH_RB_CNTL", self._controlled)
        block.on_write("IH_RB_RPTR", lambda value: self._acknowledged())
        for name in _WHILE_OFF:
            block.on_write(name, partial(self._moved, name))
        board.on_reset(self._reset)

    def _reset(self) -> None:
        self._cleared, self._armed, self._read = False, True, 0

    def _moved(self, name: str, value: int) -> None:
        if self._field("RB_ENABLE"):
            self._board.find("interrupt ring", f"{name} is written while the ring is on")
        if name == "IH_RB_WPTR":
            self._read = value

    def _field(self, name: str) -> int:
        return self._block.field("IH_RB_CNTL", name)

    def _controlled(self, value: int) -> None:
        """src: ih_v6_0_toggle_ring_interrupts(): the overflow is cleared by a rising edge"""
        clear = bool(self._field("WPTR_OVERFLOW_CLEAR"))
        if clear and not self._cleared:
            self._block.put("IH_RB_WPTR", self._block.get("IH_RB_WPTR") & ~_OVERFLOW)
        self._cleared = clear

    @property
    def ring_bytes(self) -> int:
        """src: ih_v6_0_rb_cntl(): RB_SIZE is the logarithm of the dwords"""
        return 4 << self._field("RB_SIZE")

    def doorbell(self, index: int, value: int) -> bool:
        """A store to a doorbell: the read pointer, where the driver wants it so."""
        name = "IH_DOORBELL_RPTR"
        on = self._block.field(name, "ENABLE")
        if not on or index != self._block.field(name, "OFFSET"):
            return False
        self._block.put("IH_RB_RPTR", value & self.ring_bytes - 1)
        self._acknowledged()
        return True

    def _acknowledged(self) -> None:
        """The host has read: with RPTR_REARM the next message may come."""
        read, written = self._pointers()
        if not self._field("RB_ENABLE"):
            self._read = read
            return
        beyond = (read - self._read) % self.ring_bytes > (written - self._read) % self.ring_bytes
        overflow = self._block.get("IH_RB_WPTR") & _OVERFLOW
        if read % ENTRY_BYTES or read >= self.ring_bytes or (beyond and not overflow):
            self._board.find("interrupt ring", f"a read pointer of {read:#x}, of {written:#x}")
        self._read = read
        self._armed = True
        if read != written:
            self._message()

    def _pointers(self) -> tuple[int, int]:
        block = self._block
        written = block.field("IH_RB_WPTR", "OFFSET") << 2
        return block.get("IH_RB_RPTR"), written

    def send(self, entry: Entry) -> None:
        """Put an entry into the ring. It is lost while the ring is off."""
        if not self._field("RB_ENABLE"):
            self._board.find("interrupt lost", f"client {entry.client:#x}: the ring is off")
            return
        read, written = self._pointers()
        after = written + ENTRY_BYTES & self.ring_bytes - 1
        overflow = self._block.get("IH_RB_WPTR") & _OVERFLOW
        if after == read:
            if not self._field("WPTR_OVERFLOW_ENABLE"):
                self._board.find("interrupt lost", f"client {entry.client:#x}: the ring is full")
                return
            if not overflow:
                self._board.find("interrupt ring", "it overflows: unacknowledged entries")
            overflow = _OVERFLOW
        base = self._block.get("IH_RB_BASE") << 8 | self._block.get("IH_RB_BASE_HI") << 40
        if not self._store(base + written, self._bytes(entry), "ring"):
            return
        self._block.put("IH_RB_WPTR", after | overflow)
        self._write_back(after | overflow)
        self._message()

    def _bytes(self, entry: Entry) -> bytes:
        now = self._board.clock.ticks()
        first = entry.client | entry.source << 8 | entry.ring_id << 16 | entry.vmid << 24
        pasid = self._block.get(f"IH_VMID_{entry.vmid}_LUT") & 0xFFFF
        words = [first, now & _WORD, now >> _WORD_BITS & 0xFFFF, pasid | entry.node << 16]
        words += [*entry.words, 0, 0, 0, 0][:4]
        return b"".join((word & _WORD).to_bytes(4, "little") for word in words)

    def _write_back(self, pointer: int) -> None:
        if self._field("WPTR_WRITEBACK_ENABLE"):
            low, high = (self._block.get(f"IH_RB_WPTR_ADDR_{end}") for end in ("LO", "HI"))
            self._store(low | high << _WORD_BITS, pointer.to_bytes(4, "little"), "write pointer")

    def _store(self, address: int, data: bytes, what: str) -> bool:
        """Whether there is memory at an address of the space that MC_SPACE names."""
        space = self._field("MC_SPACE")
        gfx9 = self._board.chip.family == "gfx9"
        if space == (_BUS_9 if gfx9 else _BUS):
            if gfx9 and not self._block.field("IH_CHICKEN", "MC_SPACE_GPA_ENABLE"):
                self._board.find("interrupt ring", "IH_CHICKEN does not allow MC_SPACE 1")
                return False
            found = self._board.dma(address, len(data), write=True)
            if found is not None:
                _put(*found, data)
            return found is not None
        if space != _MEMORY:
            self._board.find("interrupt ring", f"MC_SPACE is {space}")
            return False
        try:
            self._hub.space(self._field("MC_VMID")).agent("IH").write(address, data)
        except MemoryFault as fault:
            self._board.find("interrupt ring", f"no memory for its {what}: {fault}")
            return False
        return True

    def _message(self) -> None:
        if not self._field("ENABLE_INTR"):
            if self._board.msi_on():
                self._board.find("interrupt not enabled", "IH_RB_CNTL.ENABLE_INTR, and MSI is on")
            return
        if not self._armed:
            return
        self._armed = not self._field("RPTR_REARM")
        self._board.raise_msi(0)


def _put(pool: Pool, off: int, data: bytes) -> None:
    pool.bytes[off : off + len(data)] = np.frombuffer(data, np.uint8)
