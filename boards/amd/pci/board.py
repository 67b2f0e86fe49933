"""What the blocks of one GPU share. Parts get it whole; gpu.py puts them together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from threading import get_ident

from boards.amd.cp.engine_types import Chip
from boards.amd.hardware import Hardware
from boards.amd.pci.options import PciOptions
from boards.amd.pci.register_file import Block, RegisterFile
from boards.amd.pci.vram import PciVram
from boards.machine.pci.delays import Delays
from boards.machine.pci.function import BusMaster
from boards.machine.pool import Pool


class Nowhere:
    """The bus before the function is put into a machine."""

    def decode(self, address: int, nbytes: int, write: bool) -> tuple[Pool, int] | None:
        return None

    def message(self, vector: int) -> None:
        return None


class Board:
    """Memory, registers, loaded firmware, the bus; and hooks that parts add themselves to."""

    def __init__(
        self, hardware: Hardware, chip: Chip, vram_bytes: int, options: PciOptions
    ) -> None:
        self.hardware, self.chip, self.options = hardware, chip, options
        self.clock = hardware.clock
        self.delays = Delays(self.clock)
        self.vram = PciVram(f"VRAM of {chip.name}", vram_bytes, options.poison_bytes)
        self.registers = RegisterFile(self.find)
        self.bus: BusMaster = Nowhere()
        self.bus_master_on: Callable[[], bool] = lambda: False
        self.raise_msi: Callable[[int], None] = lambda vector: None
        self.msi_on: Callable[[], bool] = lambda: False
        self.loaded: set[str] = set()
        """Firmware that has arrived, by the PSP's names: "SMU", "RLC_G", "RS64_MEC", ...; and
        "RLC_AUTOLOAD" once the RLC has the order to start everything."""
        self.mc_base = 0x80_0000_0000 if chip.family == "gfx11" else 0x100_0000_0000
        """Memory-controller address of VRAM's byte 0: where the firmware put the aperture."""
        self.partitions = 0
        """How many devices the security processor made of gfx942's dies; 0: it was not told."""
        self.hdp_flushes = 0
        self.engine = ""
        """Who is at the registers now: "" for the bus, or the role of an engine of the GPU."""
        self._flushing = 0
        """The thread of the host whose flush is under way."""
        self._flushes_at_launch: dict[Hashable, int] = {}
        self._resets: list[Callable[[], None]] = []
        self._core_resets: list[Callable[[], None]] = []
        self._pumps: list[Callable[[], bool]] = []
        self.on_reset(self._forget_flush)

    def _forget_flush(self) -> None:
        self._flushing = 0

    @contextmanager
    def by_engine(self, role: str) -> Iterator[None]:
        """Registers are accessed by an engine of the GPU ("KIQ", "MES"), not over the bus."""
        before, self.engine = self.engine, role
        try:
            yield
        finally:
            self.engine = before

    # Hooks

    def on_reset(self, hook: Callable[[], None], *, core: bool = False) -> None:
        """Called after all registers forgot, in mode-1 and bus resets.

        `core`: also when the graphics core alone is powered off.
        """
        self._resets.append(hook)
        if core:
            self._core_resets.append(hook)

    def on_pump(self, hook: Callable[[], bool]) -> None:
        """Called until none moves anything."""
        self._pumps.append(hook)

    def resets(self) -> Iterable[Callable[[], None]]:
        """What `on_reset` was given."""
        return tuple(self._resets)

    def power_off_core(self) -> None:
        """Graphics core, its copy engines and schedulers are off, and all firmware has ended but
        the security processor's own: it has to be loaded again."""
        self.loaded.clear()
        for block in self.registers.every("GC"):
            block.reset()
        for hook in self._core_resets:
            hook()

    def pump(self) -> bool:
        """One round of everything that can move."""
        moved = self.delays.run()
        for hook in self._pumps:
            moved |= hook()
        return moved

    # Reports

    def find(self, kind: str, what: str, detail: str = "") -> None:
        """A rule that was broken."""
        self.hardware.find(kind, what, detail)
        self.hardware.event("violation", kind=kind, what=what, detail=detail)

    # Addresses

    def block(self, name: str, instance: int = 0) -> Block:
        """An instance of a block. Raises: KeyError."""
        for block in self.registers.every(name):
            if block.instance == instance:
                return block
        raise KeyError(f"{self.chip.name} has no {name}[{instance}]")

    def vram_offset(self, mc_address: int, nbytes: int) -> int | None:
        """The offset of a memory-controller address in VRAM; None: it is not all VRAM."""
        off = mc_address - self.mc_base
        return off if off >= 0 and off + nbytes <= self.vram.nbytes else None

    def dma(self, address: int, nbytes: int, *, write: bool) -> tuple[Pool, int] | None:
        """Host memory behind a bus address; dropped, and a violation, with bus mastering off."""
        if not self.bus_master_on():
            self.find("DMA with bus mastering off", f"{self.chip.name}", f"{address:#x}")
            return None
        found = self.bus.decode(address, nbytes, write)
        if found is None:
            self.find("DMA outside mapped memory", f"{address:#x}+{nbytes:#x}", "")
        return found

    def host_read(self, off: int, nbytes: int) -> bytes:
        """VRAM as the host reads it through the board; all ones where there is none."""
        if off < 0 or off + nbytes > self.vram.nbytes or self.vram.is_guarded(off, nbytes):
            self.find("VRAM that the host may not reach", f"read of {off:#x}+{nbytes:#x}")
            return b"\xff" * nbytes
        return self.vram.bytes[off : off + nbytes].tobytes()

    def host_write(self, off: int, data: bytes) -> None:
        """The same for a write, which is lost."""
        if off < 0 or off + len(data) > self.vram.nbytes or self.vram.is_guarded(off, len(data)):
            self.find("VRAM that the host may not reach", f"write of {off:#x}+{len(data):#x}")
            return
        self.vram.place(off, data)

    # What the host wrote through BAR0 reaches the GPU when HDP is flushed

    def flush_hdp(self) -> None:
        """A flush was ordered by a posted write: it is under way until a register is read."""
        self.hardware.event("HDP flush")
        self.hdp_flushes += 1
        self._flushing = get_ident()

    def posted(self) -> None:
        """A register was read, which lets no write before it wait.

        src: hdp_v6_0.c hdp_v6_0_flush_hdp(): "read back a register to post the write"
        """
        self._flushing = 0

    def need_flushed(self, name: str) -> None:
        """Somebody will read what the host wrote to VRAM: a flush of that must not be under way.

        Another thread's flush is of its own stores: it may come between a read and a doorbell.
        """
        if self._flushing == get_ident():
            self.find("HDP flush under way", f"{name}: no register was read since the flush")

    def launched(self, ring: Hashable, name: str) -> None:
        """A doorbell for new work in a ring in VRAM: HDP must have been flushed since the last.

        Not seen: a flush before the writes rather than after them.
        """
        self.need_flushed(name)
        if self._flushes_at_launch.get(ring, 0) == self.hdp_flushes:
            self.find("doorbell without HDP flush", name)
        self._flushes_at_launch[ring] = self.hdp_flushes
