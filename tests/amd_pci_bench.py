"""A bare GPU on a board, brought up block by block without firmware, for tests of the blocks.

The board then counts every block's firmware as loaded.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from boards.amd.chip import chip as board_chip
from boards.amd.hardware import Hardware
from boards.amd.machine import Options
from boards.amd.pci.gpu import PciGpu
from boards.amd.pci.options import PciOptions
from drivers.amd.chips import CHIPS
from drivers.amd.iface import QueueKind
from drivers.amd.pci import boot, compute_queue, copy_queue, gfx, gmc, ih, nbio, sdma
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.page_table import page_table
from drivers.amd.pci.queue_spec import QueueSpec
from drivers.bare.address_space import AddressSpace
from drivers.bare.page_format import Rights
from tests.support import check

MIB = 1 << 20
VRAM_BYTES = 512 * MIB
NAMES = ("gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201", "gfx942")
START = {"PFP": 0x3000, "ME": 0x3000, "MEC": 0x7_0000_3000}
COMMAND = 4
MEMORY_ON, MASTER_ON = 2, 4


class BoardRegion:
    """A BAR of the board as a Region."""

    cpu_va = 0

    def __init__(self, board: PciGpu, bar: int) -> None:
        self.board, self.bar, self.nbytes = board, bar, board.bars[bar].nbytes

    def read32(self, off: int) -> int:
        return self.board.read(self.bar, off, 4)

    def write32(self, off: int, value: int) -> None:
        self.board.write(self.bar, off, 4, value)

    def read64(self, off: int) -> int:
        return self.board.read(self.bar, off, 8)

    def write64(self, off: int, value: int) -> None:
        self.board.write(self.bar, off, 8, value)

    def read(self, off: int, nbytes: int) -> bytes:
        return self.board.board.host_read(off, nbytes)

    def write(self, off: int, data: bytes | memoryview) -> None:
        self.board.board.host_write(off, bytes(data))

    def view(self) -> memoryview:
        raise NotImplementedError("a BAR of this board is not mapped")

    def close(self) -> None:
        """No mapping to close."""


class BoardClock:
    """The board's time, without real sleeping."""

    def __init__(self, board: PciGpu) -> None:
        self._board = board

    def monotonic_s(self) -> float:
        return self._board.clock.now_s()

    def sleep(self, seconds: float) -> None:
        self._board.clock.skip(seconds)
        self._board.pump()


class BoardSession:
    """The parts of a PciSession that the blocks' modules use."""

    def __init__(self, board: PciGpu, *, interrupts: bool = False) -> None:
        self.board, self.interrupts = board, interrupts
        self.address, self.world = "0000:03:00.0", BoardClock(board)
        self.clock = self.world

    def bar(self, number: int, *, combine: bool = False) -> BoardRegion:
        check(combine == (number == 0), "only VRAM may be write-combined")
        return BoardRegion(self.board, number)


def make_board(name: str, **options: Any) -> PciGpu:
    """A GPU with memory decoding on and no firmware checks."""
    hardware = Hardware([], Options(vram_bytes=VRAM_BYTES))
    board = PciGpu(hardware, board_chip(name), VRAM_BYTES, PciOptions(firmware=False, **options))
    board.config.write(COMMAND, struct.pack("<H", MEMORY_ON | MASTER_ON))
    return board


def identified(board: PciGpu, *, interrupts: bool = False) -> BareGpu:
    """The driver's view of it, before any change."""
    chip = next(chip for chip in CHIPS.values() if chip.name == board.chip.name)
    session: Any = BoardSession(board, interrupts=interrupts)
    return boot.identify(session, chip)


def brought_up(name: str, *, interrupts: bool = False, **options: Any) -> tuple[PciGpu, BareGpu]:
    """Everything but firmware, power and clocks."""
    board = make_board(name, **options)
    gpu = identified(board, interrupts=interrupts)
    bring_up(gpu)
    return board, gpu


def bring_up(gpu: BareGpu, *, warm: bool = False) -> None:
    """The boot's steps of the blocks under test."""
    nbio.up(gpu)
    if not warm:
        gmc.up(gpu)
    else:
        gmc.locate(gpu)
    ih.up(gpu)
    gfx.wait_loaded(gpu)
    gfx.up(gpu, START, warm)
    sdma.up(gpu)


def ring_bytes(words: Sequence[int]) -> bytes:
    """Packets as bytes of the ring."""
    return struct.pack(f"<{len(words)}I", *words)


def ring_doorbell(board: PciGpu, doorbell: int, value: int) -> None:
    """A store to the doorbell BAR, and the board's reaction."""
    board.write(2, 8 * doorbell, 8, value)
    board.pump()


def violations(board: PciGpu) -> list[str]:
    """The board's violations, as text."""
    return [str(violation) for violation in board.violations]


VMID = 8
PAGE = 4096


class Process:
    """Memory and queues of one VMID, mapped by hand: the same VRAM for host and GPU."""

    def __init__(self, board: PciGpu, gpu: BareGpu) -> None:
        self.board, self.gpu = board, gpu
        self.table = page_table(gpu, VMID)
        self.space = AddressSpace()
        self.pieces: dict[int, tuple[tuple[int, int], ...]] = {}
        gmc.enable_context(gpu, VMID, self.table)

    def alloc(self, nbytes: int, **rights: bool) -> int:
        """Zeroed VRAM, mapped; writable and uncached unless said otherwise."""
        va = self.space.take(nbytes)
        pieces = self.gpu.pages.alloc(nbytes, visible=True, whole=True)
        self.gpu.vram.write(pieces[0][0], bytes(pieces[0][1]))
        asked = replace(Rights(writable=True, executable=False, uncached=True), **rights)
        self.table.map(va, pieces, asked, system=False)
        gmc.flush_tlb(self.gpu, VMID)
        self.pieces[va] = pieces
        return va

    def unmap(self, va: int, *, flush: bool = True) -> None:
        """Remove it from the page table."""
        self.table.unmap(va, sum(size for _, size in self.pieces[va]))
        if flush:
            gmc.flush_tlb(self.gpu, VMID)
            self.table.settle()

    def offset(self, va: int) -> int:
        """The VRAM offset of an address."""
        for base, ((offset, nbytes),) in self.pieces.items():
            if base <= va < base + nbytes:
                return offset + va - base
        raise KeyError(hex(va))

    def read(self, va: int, nbytes: int) -> bytes:
        """Read it as the host."""
        return self.gpu.vram.read(self.offset(va), nbytes)

    def read64(self, va: int) -> int:
        """The same, as a number."""
        return int.from_bytes(self.read(va, 8), "little")

    def write(self, va: int, data: bytes) -> None:
        """Write it as the host, through the BAR."""
        self.gpu.vram.write(self.offset(va), data)


class BenchQueue:
    """A ring of its own, filled and rung by hand."""

    def __init__(self, process: Process, kind: QueueKind, *, doorbell: int = 3, slot: int = 0,
                 ring: int = 4 * PAGE) -> None:  # fmt: skip
        self.process, self.written = process, 0
        pointers = process.alloc(PAGE)
        self.spec = QueueSpec(
            kind, VMID, process.alloc(ring), ring, pointers + 128, pointers + 56,
            process.alloc(PAGE), PAGE, doorbell, slot,
        )  # fmt: skip
        self.module = copy_queue if kind == "SDMA" else compute_queue

    def start(self) -> None:
        """Give it to the hardware. An AQL queue's amd_queue_t has the place of its indices."""
        if self.spec.kind == "AQL":
            base, size = self.spec.write_va - 56, self.spec.ring_bytes // 64
            self.process.write(base + 8, struct.pack("<QQI", self.spec.ring_va, 0, size))
            self.process.write(base + 136, struct.pack("<I", 128))
        self.module.activate(self.process.gpu, self.spec)

    def stop(self) -> bool:
        """Take it back."""
        return self.module.deactivate(self.process.gpu, self.spec)

    def submit(self, words: Sequence[int]) -> None:
        """Append words, then store the write pointer in the queue's unit, then the doorbell."""
        data = ring_bytes(words)
        self.process.write(self.spec.ring_va + self.written % self.spec.ring_bytes, data)
        self.written += len(data)
        unit = {"PM4": 4, "SDMA": 1, "AQL": 64}[self.spec.kind]
        count = self.written // unit
        self.process.write(self.spec.write_va, count.to_bytes(8, "little"))
        self.process.gpu.flush_writes()
        reported = count - 1 if self.spec.kind == "AQL" else count
        ring_doorbell(self.process.board, self.spec.doorbell, reported)
