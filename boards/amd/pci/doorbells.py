"""The doorbell BAR: which block a store reaches, if the aperture is on and a route leads there."""

from __future__ import annotations

from collections.abc import Callable

from boards.amd.pci.board import Board
from boards.amd.pci.register_file import Block

APERTURE = "RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN"
_ACCESS, _FENCE = "BIFC_DOORBELL_ACCESS_EN_PF", "XCC_DOORBELL_FENCE"
_ENTRIES = 16
_SDMA_ENTRIES = 16
_SDMA_PORTS_942 = ((1, 0xE, 0x1), (2, 0x8, 0x2), (5, 0x9, 0x8), (6, 0xA, 0x9))
"""(port, AWID and range offset, upper address) of the four copy engines of a base die.

src: nbio_v7_9.c sdma_doorbell_range()
"""
_GC_PORTS = ((0, 3), (3, 6))
"""Entry and AWID. src: nbio_v4_3.c and nbif_v6_3_1.c gc_doorbell_init(), which set both. That
compute queues need both is a guess on the strict side."""
_SDMA_PORT, _SDMA_AWID = 2, 0xE
_IH_PORT, _IH_AWID = 1, 0x0
"""src: nbio_v4_3.c nbio_v4_3_ih_doorbell_range(), which sets AWADDR_31_28 to 0 too"""
_AWADDR = 0x3
"""AWADDR_31_28 of every route. src: nbio_v4_3.c sdma_doorbell_range(), gc_doorbell_init()"""
_WORD_BYTES = 4
_PAGE_DW = 1024
"""Ranges of gfx942's copy engines are in every page of doorbells, so that each process has its own.
src: kgd_kfd_interface.h sdma_doorbell_idx, non_cp_doorbells_start; kfd_priv.h
KFD_QUEUE_DOORBELL_MIRROR_OFFSET; kfd_device_queue_manager.c allocate_doorbell()"""

Listener = Callable[[str, int, int, int], bool]
"""(block "GC", "SDMA" or "IH", doorbell in dwords, bytes, value) -> whether a queue had it."""


class Doorbells:
    """Stores to BAR2."""

    def __init__(self, board: Board, blocks: list[Block]) -> None:
        self._board, self._blocks, self._listeners = board, blocks, list[Listener]()
        prefix = "GDC_S2A0_S2A" if blocks[0].has("GDC_S2A0_S2A_DOORBELL_ENTRY_0_CTRL") else "S2A"
        names = [f"{prefix}_DOORBELL_ENTRY_{entry}_CTRL" for entry in range(_ENTRIES)]
        self._names = [name for name in names if blocks[0].has(name)]
        self._by_die = board.chip.family == "gfx9"

    def listen(self, listener: Listener) -> None:
        """Stores that were routed are offered to every listener."""
        self._listeners.append(listener)

    def write(self, off: int, nbytes: int, value: int) -> None:
        """A store of 4 or 8 bytes."""
        where = f"doorbell at byte {off:#x}"
        if nbytes not in (4, 8) or off % nbytes:
            self._board.find("odd doorbell", where, f"{nbytes} bytes")
            return
        if not self._blocks[0].field(APERTURE, "BIF_DOORBELL_APER_EN"):
            self._board.find("doorbell lost", where, "the doorbell aperture is off")
            return
        index = off // _WORD_BYTES
        target = self._target_by_die(index) if self._by_die else self._target(index)
        if not target:
            self._board.find("doorbell lost", where, "no route leads anywhere")
            return
        self._board.hardware.event("doorbell write", index=index, value=value, block=target)
        taken = [listener(target, index, nbytes, value) for listener in self._listeners]
        if not any(taken):
            self._board.find("doorbell without a queue", where, f"{target}, value {value:#x}")

    # gfx11, gfx12: one table of routes; an entry without a range takes what no other one does

    def _port(self, block: Block, entry: int, field: str) -> int:
        return block.field(self._names[entry], f"S2A_DOORBELL_PORT{entry}_{field}")

    def _target(self, index: int) -> str:
        block = self._blocks[0]
        for entry, name in enumerate(self._names):
            if not block.get(name):
                continue
            size = self._port(block, entry, "RANGE_SIZE")
            first = self._port(block, entry, "RANGE_OFFSET")
            if self._port(block, entry, "ENABLE") and size and first <= index < first + size:
                if entry == _IH_PORT:
                    return "IH" if self._leads(block, entry, _IH_AWID, 0) else ""
                sdma = entry == _SDMA_PORT and self._leads(block, entry, _SDMA_AWID, _AWADDR)
                return "SDMA" if sdma else ""
        routed = all(self._leads(block, entry, awid, _AWADDR) for entry, awid in _GC_PORTS)
        return "GC" if routed else ""

    def _leads(self, block: Block, entry: int, awid: int, awaddr: int) -> bool:
        """Whether an entry is on, and its target the right one."""
        wanted = {"ENABLE": 1, "AWID": awid, "AWADDR_31_28_VALUE": awaddr}
        return all(self._port(block, entry, field) == value for field, value in wanted.items())

    # gfx942: a table of ranges for the copy engines, and a port on each engine's base die

    def _target_by_die(self, index: int) -> str:
        block = self._blocks[0]
        for engine in range(_SDMA_ENTRIES):
            entry = engine + 1
            name = f"DOORBELL0_CTRL_ENTRY_{entry}"
            first = block.field(name, f"BIF_DOORBELL{entry}_RANGE_OFFSET_ENTRY")
            size = block.field(name, f"BIF_DOORBELL{entry}_RANGE_SIZE_ENTRY")
            if first <= index % _PAGE_DW < first + size:
                number, at = divmod(engine, len(_SDMA_PORTS_942))
                port, awid, awaddr = _SDMA_PORTS_942[at]
                die = self._blocks[number]
                leads = self._leads(die, port, awid, awaddr)
                return "SDMA" if leads and self._port(die, port, "RANGE_OFFSET") == awid else ""
        return "GC" if block.get(_ACCESS) and not self._fenced() else ""

    def _fenced(self) -> bool:
        return bool(self._blocks[0].get(_FENCE) & (1 << self._board.chip.xccs) - 1)
