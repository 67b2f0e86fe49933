"""The composition root: a GPU's parts put together behind its bus interface."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from boards.amd.chip import chip as chip_by_name
from boards.amd.cp.engine_types import Chip
from boards.amd.hardware import Hardware
from boards.amd.pci import discovery_binary, vbios
from boards.amd.pci.board import Board
from boards.amd.pci.doorbells import Doorbells
from boards.amd.pci.graphics import Graphics
from boards.amd.pci.harvest import Harvest
from boards.amd.pci.ip_blocks import AIDS_942, FUSED_OFF, IpBlock, ip_blocks
from boards.amd.pci.nbio import Nbio
from boards.amd.pci.options import PciOptions
from boards.amd.pci.psp import Psp
from boards.amd.pci.register_file import Block
from boards.amd.pci.register_table import Table, table
from boards.amd.pci.smu import SmuController
from boards.amd.pci.smuio import Smuio
from boards.amd.pci.unmodelled import known_as
from boards.machine.chassis import Violation
from boards.machine.clock import Clock
from boards.machine.pci.config_space import ConfigSpace, Identity
from boards.machine.pci.function import Bar, BusMaster

VRAM_BAR, DOORBELL_BAR, REGISTER_BAR = 0, 2, 5
PCI_VENDOR = 0x1002
_SUBSYSTEM = 0x0E3B
_DOORBELL_LOG2, _REGISTER_LOG2 = {"gfx9": 21}, {"gfx9": 21, "gfx11": 20, "gfx12": 19}
"""2 MiB on gfx942 and 256 MiB on the others; registers 2 MiB, 1 MiB, 512 KiB."""
_DOORBELL_LOG2_ELSE = 28
_WORD_BYTES = 4
_PUMPS = 1 << 20


def _identity(chip: Chip, device_id: int) -> Identity:
    """src: pci_ids.h PCI_CLASS_DISPLAY_VGA; MI300X is a processing accelerator, 0x1200"""
    accelerator = chip.family == "gfx9"
    return Identity(
        PCI_VENDOR, device_id or chip.properties["device_id"], _SUBSYSTEM,
        class_code=0x120000 if accelerator else 0x030000, revision=0x00 if accelerator else 0xC8,
        many_functions=not accelerator, resets=accelerator,
    )  # fmt: skip


class PciGpu:
    """`PciFunction` of one GPU."""

    def __init__(
        self, hardware: Hardware, chip: Chip, vram_bytes: int, options: PciOptions | None = None
    ) -> None:
        self.options = options or PciOptions()
        self.board = Board(hardware, chip, vram_bytes, self.options)
        largest = (vram_bytes - 1).bit_length()
        first = (self.options.bar_bytes - 1).bit_length() if self.options.bar_bytes else largest
        sizes = {
            VRAM_BAR: first,
            DOORBELL_BAR: _DOORBELL_LOG2.get(chip.family, _DOORBELL_LOG2_ELSE),
            REGISTER_BAR: _REGISTER_LOG2[chip.family],
        }
        identity = _identity(chip, self.options.device_id)
        self.config = ConfigSpace(identity, sizes, largest, vbios.ROM_BYTES)
        self.config.changed, self.config.flr = self._config_changed, self.reset
        self.function_resets = 0
        self.config.due = self.board.delays.run
        self._hooks: list[Callable[[], None]] = []
        self._back_s = 0.0
        self.board.bus_master_on = lambda: self.config.master_on
        self.board.raise_msi = self._raise_msi
        self.board.msi_on = lambda: self.config.msi_on
        for ip in ip_blocks(chip):
            self._add(ip)
        self.board.registers.known_as = known_as(chip)
        self._compose()
        self.reset()

    def _add(self, ip: IpBlock) -> None:
        if not ip.table:
            return
        for die in range(AIDS_942 if (ip.name, self.chip.family) == ("NBIF", "gfx9") else 1):
            block = Block(ip.name, ip.instance + die, ip.bases_dw, _part(ip), self.board.find)
            # src: aqua_vanjaram.c aqua_vanjaram_encode_ext_smn_addressing(): bit 34 says that bits
            # 33:32 of the byte address are the number of a base die
            self.board.registers.add(block, (die << 32 | 1 << 34) // _WORD_BYTES if die else 0)

    def _compose(self) -> None:
        """Parts attach themselves to the registers that they give a meaning."""
        board = self.board
        self.nbio = Nbio(board, board.block("NBIF"))
        self.doorbells = Doorbells(board, board.registers.every("NBIF"))
        Harvest(board, board.registers.every("GC"))
        for block in board.registers.every("SMUIO"):
            Smuio(board, block)
        self.psp = Psp(board, board.block("MP0"), self._asked_for_reset)
        self.smu = SmuController(board, board.block("MP1"), self._asked_for_reset)
        self.graphics = Graphics(board, self.doorbells)
        for memory in (self.psp.memory, self.smu.memory):
            memory.hub = self.graphics.mm_hub

    # What a machine sees

    @property
    def chip(self) -> Chip:
        return self.board.chip

    @property
    def hardware(self) -> Hardware:
        return self.board.hardware

    @property
    def violations(self) -> list[Violation]:
        return self.board.hardware.violations

    @property
    def clock(self) -> Clock:
        return self.board.clock

    @property
    def bars(self) -> dict[int, Bar]:
        sizes = self.config.bar_log2
        return {
            VRAM_BAR: Bar(1 << sizes[VRAM_BAR], self.board.vram, prefetchable=True, wide=True),
            DOORBELL_BAR: Bar(1 << sizes[DOORBELL_BAR], None, prefetchable=True, wide=True),
            REGISTER_BAR: Bar(1 << sizes[REGISTER_BAR], None, prefetchable=False, wide=False),
        }

    def connect(self, bus: BusMaster) -> None:
        self.board.bus = bus

    def on_config(self, hook: Callable[[], None]) -> None:
        self._hooks.append(hook)

    def _answers(self, bar: int, off: int, nbytes: int) -> bool:
        self.board.delays.run()
        if not self.config.memory_on:
            self.board.find("BAR access with memory disabled", f"BAR {bar}", f"{off:#x}")
            return False
        if self._back_s and self.clock.now_s() < self._back_s:
            return False
        return bar in self.config.bar_log2 and 0 <= off <= (1 << self.config.bar_log2[bar]) - nbytes

    def read(self, bar: int, off: int, nbytes: int) -> int:
        ones = (1 << 8 * nbytes) - 1
        if not self._answers(bar, off, nbytes):
            return ones
        if bar == VRAM_BAR:
            return int.from_bytes(self.board.host_read(off, nbytes), "little")
        if bar == DOORBELL_BAR:
            return 0
        if not self._is_word(off, nbytes):
            return ones
        self.board.posted()
        return 0 if self.nbio.remapped(off) else self.board.registers.read(off // _WORD_BYTES)

    def write(self, bar: int, off: int, nbytes: int, value: int) -> None:
        if not self._answers(bar, off, nbytes):
            return
        if bar == VRAM_BAR:
            self.board.host_write(off, value.to_bytes(nbytes, "little"))
        elif bar == DOORBELL_BAR:
            self.doorbells.write(off, nbytes, value)
        elif not self._is_word(off, nbytes):
            return
        elif self.nbio.remapped(off):
            self.nbio.flush(off, value)
        else:
            self.board.registers.write(off // _WORD_BYTES, value)

    def _is_word(self, off: int, nbytes: int) -> bool:
        if nbytes == _WORD_BYTES and off % _WORD_BYTES == 0:
            return True
        self.board.find("register access that is no dword", f"{nbytes} bytes at {off:#x}", "")
        return False

    def pump(self) -> bool:
        self.psp.check_guard()
        moved = False
        for _ in range(_PUMPS):
            if not self.board.pump():
                break
            moved = True
        return moved

    # Resets

    def reset(self) -> None:
        """Power on, the bus's reset line, a function-level reset."""
        self.function_resets += 1
        self.config.reset()
        self.forget()
        self._back_s = 0.0
        self._config_changed()

    def _asked_for_reset(self) -> None:
        """A driver's order. src: amdgpu_device_mode1_reset(): bus mastering is off before it"""
        if self.config.master_on:
            self.board.find("mode-1 reset with bus mastering on", self.chip.name)
        self.mode1_reset()

    def mode1_reset(self) -> None:
        """What the power controller's reset leaves: config space, without bus mastering."""
        self.psp.check_guard()
        if self.options.reset_keeps_config:
            self.config.stop_mastering()
        else:
            self.config.reset()
            self._config_changed()
        self.forget()
        self._back_s = self.clock.now_s() + self.options.reset_s

    def forget(self) -> None:
        """Registers, firmware, rings and memory are gone; the boot ROM has run again."""
        board = self.board
        board.registers.reset()
        board.delays.forget()
        board.loaded.clear()
        board.vram.lose()
        for hook in board.resets():
            hook()
        binary = self.discovery
        board.vram.place(board.vram.nbytes - discovery_binary.OFFSET_FROM_END, binary)

    @cached_property
    def rom(self) -> bytes:
        """What the expansion ROM's base address register decodes: the VBIOS."""
        return vbios.build(self.chip.name)

    @cached_property
    def discovery(self) -> bytes:
        """The binary that the boot ROM puts at VRAM's end."""
        return discovery_binary.build(self.chip, FUSED_OFF)

    # Interrupts

    def _raise_msi(self, vector: int) -> None:
        if not self.config.msi_on:
            return
        if self.config.msi_masked(vector):
            self.config.set_pending(vector, on=True)
            return
        self.board.bus.message(vector)

    def _config_changed(self) -> None:
        if self.config.msi_on and self.config.pending(0) and not self.config.msi_masked(0):
            self.config.set_pending(0, on=False)
            self.board.bus.message(0)
        for hook in self._hooks:
            hook()


def _part(ip: IpBlock) -> Table:
    whole = table(ip.table)
    if not ip.prefixes:
        return whole
    return {name: register for name, register in whole.items() if name.startswith(ip.prefixes)}


def open_function(
    hardware: Hardware, name: str, *, vram_bytes: int = 1 << 30, options: PciOptions | None = None
) -> PciGpu:
    """A GPU by its chip's name ("gfx1100"), to be connected to a machine. Raises: KeyError."""
    return PciGpu(hardware, chip_by_name(name), vram_bytes, options)
