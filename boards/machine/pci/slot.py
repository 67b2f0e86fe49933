"""One PCI function as the kernel of a made-up machine has it: BARs, command, reset, interrupts.

src: Linux 6.12 drivers/pci/pci.c, setup-res.c, rebar in pci.c; include/uapi/linux/pci_regs.h
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from boards.machine.frames import Frames
from boards.machine.iommu import Domain
from boards.machine.open_files import EventFile, OpenFile, Process, Region
from boards.machine.pci.function import ConfigBytes, PciFunction
from boards.machine.pci.panel import BusPanel
from boards.machine.pool import Pool
from boards.machine.region import Reservation

COMMAND, COMMAND_BYTES = 0x04, 2
MEMORY, MASTER = 0x2, 0x4
_BAR_FIRST = 0x10
_HEADER_BYTES = 0x40
_CAP_LIST, _CAP_EXPRESS, _CAP_MSI = 0x34, 0x10, 0x05
_LINK_CONTROL = 0x10
_EXT_FIRST, _EXT_REBAR, _REBAR_CTRL = 0x100, 0x15, 8
_FLR = 1 << 28
_MSI_ADDRESS, _MSI_DATA = 0xFEE0_0000, 0x4021
_MIB_SHIFT, _WORD = 20, 0xFFFF_FFFF
_MOST_CAPS = 48
# src: include/linux/ioport.h IORESOURCE_MEM, _PREFETCH, _SIZEALIGN, _MEM_64
_MEM, _PREFETCH, _ALIGN, _WIDE = 0x200, 0x2000, 0x40000, 0x10_0000
_BAR_PREFETCH, _BAR_WIDE = 0x8, 0x4
"""src: pci_regs.h PCI_BASE_ADDRESS_MEM_*: the BAR's own low bits, which `resource` shows too"""
_BUSY_TEXT = "a driver has it"
_FIRST_NARROW = 4
"""BARs below are 64 bits wide here."""


class Slot:
    """A function, and what the kernel remembers of it. Only GPUs have `gpu`."""

    def __init__(
        self, address: str, config: ConfigBytes, gpu: PciFunction | None, group: str,
        frames: Frames, find: Callable[[str, str, str], None],
    ) -> None:  # fmt: skip
        self.address, self.config, self.gpu, self.group = address, config, gpu, group
        self.find = find
        self._frames = frames
        self.driver, self.native = "", ""
        self.override: str | None = None
        self.enabled, self.opened = 0, 0
        self.power = "auto"
        self.boot_vga = False
        self.boot: Callable[[], None] = lambda: None
        """What the GPU's own kernel driver does to it when it gets it."""
        self.virtual_functions = 0
        self.window_bytes = 1 << 48
        """How large a BAR the bridge above has room for."""
        self.domain: Domain | None = None
        self.iommu = bool(group)
        self.panel = BusPanel()
        self.starts: dict[int, int] = {}
        self._events: dict[int, EventFile] = {}
        if gpu is not None:
            gpu.connect(self)

    # Config space

    def word(self, off: int, nbytes: int = 2) -> int:
        """A number of config space, as the kernel reads it."""
        return int.from_bytes(self.config.read(off, nbytes), "little")

    def put_word(self, off: int, value: int, nbytes: int = 2) -> None:
        """Write one, as the kernel."""
        self.config.write(off, value.to_bytes(nbytes, "little"))

    def config_read(self, off: int, nbytes: int) -> bytes:
        """What a process reads: one access."""
        where = f"config {off:#x}"
        value = self.panel.load(where, nbytes, lambda: self.word(off, nbytes))
        return value.to_bytes(nbytes, "little")

    def config_write(self, off: int, data: bytes) -> None:
        """What a process writes: one access."""
        value = int.from_bytes(data, "little")
        where = f"config {off:#x}"
        self.panel.store(where, len(data), value, lambda: self.config.write(off, data))

    def _command(self, bit: int, on: bool) -> None:
        old = self.word(COMMAND)
        self.put_word(COMMAND, old | bit if on else old & ~bit)

    def set_master(self, *, on: bool) -> None:
        """pci_set_master() and pci_clear_master()."""
        self._command(MASTER, on)

    def enable(self) -> None:
        """pci_enable_device(): counted; it decodes its BARs."""
        self.enabled += 1
        if self.enabled == 1:
            self._command(MEMORY, True)

    def disable(self) -> None:
        """pci_disable_device(): bus mastering goes with the last one, decoding stays."""
        self.enabled -= 1
        if not self.enabled:
            self._command(MASTER, False)

    def capability(self, kind: int) -> int:
        """Where a capability of the old list is; 0 without."""
        at = self.word(_CAP_LIST, 1)
        for _ in range(_MOST_CAPS):
            if not at or self.word(at, 1) == kind:
                break
            at = self.word(at + 1, 1)
        return at

    def _extended(self, kind: int) -> int:
        at = _EXT_FIRST
        for _ in range(_MOST_CAPS):
            header = self.word(at, 4)
            if header & 0xFFFF == kind:
                return at
            at = header >> 20
            if not at:
                break
        return 0

    # Resets

    @property
    def can_reset(self) -> bool:
        """Whether it can be reset by itself: a function-level reset is all there is here."""
        express = self.capability(_CAP_EXPRESS)
        return bool(express and self.word(express + 4, 4) & _FLR)

    def reset(self) -> None:
        """pci_reset_function(): what the kernel knows of config space comes back."""
        header = self.config.read(0, _HEADER_BYTES)
        express = self.capability(_CAP_EXPRESS)
        link = self.word(express + _LINK_CONTROL)
        if self.gpu is not None:
            self.gpu.reset()
        self.config.write(_BAR_FIRST, header[_BAR_FIRST : _BAR_FIRST + 24])
        if express:  # src: drivers/pci/pci.c pci_restore_pcie_state(): cap[i++] for PCI_EXP_LNKCTL
            self.put_word(express + _LINK_CONTROL, link)
        self.config.write(COMMAND, header[COMMAND : COMMAND + COMMAND_BYTES])

    def left_by(self, process: Process) -> None:
        """A process lets go of it by itself: it should not be able to do DMA any more."""
        if self.word(COMMAND) & MASTER and not process.dead:
            self.find("bus mastering left on", self.address, "")

    @property
    def bars_lost(self) -> bool:
        """Whether BARs are not where the kernel put them."""
        lows = {bar: self.word(_BAR_FIRST + 4 * bar, 4) & ~0xF for bar in self.starts}
        return any(lows[bar] != at & _WORD for bar, at in self.starts.items())

    def restore_bars(self) -> None:
        """What a reset of its own lost. src: vfio_pci_config.c vfio_bar_restore()"""
        for bar, address in self.starts.items():
            self._place(bar, address, 8 if bar < _FIRST_NARROW else 4)

    # BARs

    def bar_bytes(self, bar: int) -> int:
        """How large a BAR is; 0 where there is none."""
        bars = self.gpu.bars if self.gpu is not None else {}
        return bars[bar].nbytes if bar in bars else 0

    def assign(self, first: int, low: int) -> int:
        """Give every BAR an address from `first` on (below 4 GiB: at `low`); what follows them."""
        bars = self.gpu.bars if self.gpu is not None else {}
        at = first
        for number, bar in bars.items():
            if bar.wide:
                at = -(-at // bar.nbytes) * bar.nbytes
                self._place(number, at, 8)
                at += bar.nbytes
            else:
                self._place(number, low, 4)
        return at

    def _place(self, bar: int, address: int, nbytes: int) -> None:
        self.starts[bar] = address
        self.put_word(_BAR_FIRST + 4 * bar, address, nbytes)

    def flags(self, bar: int) -> int:
        """What `resource` says of a BAR."""
        found = self.gpu.bars[bar] if self.gpu is not None else None
        flags = _MEM | _ALIGN
        if found is not None and found.prefetchable:
            flags |= _PREFETCH | _BAR_PREFETCH
        if found is not None and found.wide:
            flags |= _WIDE | _BAR_WIDE
        return flags

    def sizes(self, bar: int) -> int:
        """Bit n: it may have 2^n MiB. 0: it cannot be resized."""
        cap = self._extended(_EXT_REBAR)
        if not cap or self.word(cap + _REBAR_CTRL, 4) & 0x7 != bar:
            return 0
        return self.word(cap + 4, 4) >> 4

    def resize(self, bar: int, bit: int) -> None:
        """src: pci-sysfs.c __resource_resize_store(). Raises: OSError EBUSY, EINVAL, ENOSPC."""
        if self.driver:
            raise OSError(errno.EBUSY, _BUSY_TEXT)
        if not self.sizes(bar) >> bit & 1:
            raise OSError(errno.EINVAL, f"BAR {bar} cannot have 2^{bit} MiB")
        if 1 << bit + _MIB_SHIFT > self.window_bytes:
            raise OSError(errno.ENOSPC, "the bridge's window is too small")
        cap = self._extended(_EXT_REBAR)
        old, command = self.word(cap + _REBAR_CTRL, 4), self.word(COMMAND)
        self._command(MEMORY, False)
        self.put_word(cap + _REBAR_CTRL, old & ~0x3F00 | bit << 8, 4)
        nbytes = 1 << bit + _MIB_SHIFT
        self._place(bar, -(-self.starts[bar] // nbytes) * nbytes, 8)
        self.put_word(COMMAND, command)

    def map_bar(
        self, process: Process, file: OpenFile, bar: int, start: int, nbytes: int, write: bool,
        within: Reservation | None, at: int,
    ) -> Region:  # fmt: skip
        """A BAR in a process. Raises: OSError EINVAL."""
        gpu = self.gpu
        if gpu is None or bar not in gpu.bars:
            raise OSError(errno.EINVAL, f"{self.address} has no BAR {bar}")
        if not self.word(COMMAND) & MEMORY:
            self.find("mapped a BAR that is not decoded", f"BAR {bar} of {self.address}", "")
            raise OSError(errno.EINVAL, f"{self.address} decodes nothing: it is not enabled")
        pool, had = gpu.bars[bar].pool, self.driver
        if pool is None:
            return process.map_registers(
                file, nbytes,
                lambda off, size: self._load(gpu, bar, start + off, size, had),
                lambda off, size, value: self._store(gpu, bar, start + off, size, value, had),
            )  # fmt: skip
        return process.map_file(file, pool.fd, nbytes, start, write, within, at)

    def _owned(self, had: str) -> None:
        if self.driver != had:
            self.find("BAR access after a driver got the function", self.address, self.driver)

    def _load(self, gpu: PciFunction, bar: int, off: int, nbytes: int, had: str) -> int:
        self._owned(had)
        where = f"BAR {bar} {off:#x}"
        return self.panel.load(where, nbytes, lambda: gpu.read(bar, off, nbytes))

    def _store(
        self, gpu: PciFunction, bar: int, off: int, nbytes: int, value: int, had: str
    ) -> None:
        self._owned(had)
        where = f"BAR {bar} {off:#x}"
        self.panel.store(where, nbytes, value, lambda: gpu.write(bar, off, nbytes, value))

    # Interrupts

    @property
    def msi_vectors(self) -> int:
        """How many messages it can send."""
        cap = self.capability(_CAP_MSI)
        return 1 << (self.word(cap + 2) >> 1 & 0x7) if cap else 0

    def hook(self, vector: int, event: EventFile | None) -> None:
        """Tell somebody of a message, or nobody any more; MSI is on while somebody is told."""
        self._events.pop(vector, None)
        if event is not None:
            self._events[vector] = event
        self._msi(bool(self._events))

    def unhook(self) -> None:
        """Messages are dropped."""
        self._events.clear()
        self._msi(False)

    def _msi(self, on: bool) -> None:
        cap = self.capability(_CAP_MSI)
        if not cap:
            return
        self.put_word(cap + 4, _MSI_ADDRESS, 8)
        self.put_word(cap + 12, _MSI_DATA)
        old = self.word(cap + 2)
        self.put_word(cap + 2, old | 1 if on else old & ~1)

    # What the function asks of its machine

    def decode(self, address: int, nbytes: int, write: bool) -> tuple[Pool, int] | None:
        """The memory behind a bus address: through the IOMMU, or physical."""
        if self.panel.gone:
            return None
        if self.domain is not None:
            return self.domain.decode(address, nbytes, write)
        if self.iommu:
            self.find("IOMMU fault", f"{address:#x}+{nbytes:#x}: no address space is attached", "")
            return None
        return self._frames.decode(address, nbytes, write)

    def message(self, vector: int) -> None:
        """A message-signalled interrupt."""
        event = self._events.get(vector)
        if event is not None:
            event.signal()
