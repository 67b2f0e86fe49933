"""A machine with GPUs on its PCI bus: the bus, the kernel, files, and the processes it starts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from boards.machine import host
from boards.machine.chassis import Chassis
from boards.machine.file_tree import File, FileTree
from boards.machine.frames import HUGE_BYTES, Frames
from boards.machine.open_files import OpenFile
from boards.machine.pci.drivers import drivers
from boards.machine.pci.function import ConfigBytes, PciFunction
from boards.machine.pci.kernel import VFIO, Kernel
from boards.machine.pci.panel import BusPanel
from boards.machine.pci.procfs import ProcFiles
from boards.machine.pci.slot import Slot
from boards.machine.pci.sysfs import PciSysfs
from boards.machine.pci.world import PciWorld
from boards.machine.state import BoardState, Shared
from boards.machine.vfio.iommufd import Iommufd, VfioCdev
from boards.machine.vfio.kernel import Container, Group

FIRST_GPU = 3
_FIRST_BAR = 0x80_0000_0000
_LOW_BAR, _LOW_BAR_BYTES = 0xFC80_0000, 0x20_0000
_PUMPS = 1 << 16
_GROUP = 14


@dataclass(slots=True, kw_only=True)
class BusOptions:
    """What the machine around the GPUs is like."""

    gpus: int = 1
    iommu: bool = True
    """Whether there are IOMMU groups; without, DMA is physical."""
    iommufd: bool = True
    """Whether the kernel has /dev/iommu and VFIO's character devices."""
    vfio: bool = True
    """Whether the module vfio-pci is loaded."""
    audio_driver: str = ""
    """What drives the cards' sound functions."""
    huge_pages: int = 64
    """How many pages of 2 MiB are set aside."""
    privileged: bool = True
    """Whether processes may see frame numbers."""
    memlock_bytes: int | None = None
    """How much a process may pin; None: as root."""
    window_bytes: int = 1 << 48
    """The largest BAR there is room for."""
    connectors: dict[str, tuple[str, str]] = field(
        default_factory=lambda: {"DP-1": ("disconnected", "disabled")}
    )
    boot_vga: bool = False


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU and what sits beside it."""

    gpu: PciFunction
    port: ConfigBytes
    """The bridge above it."""
    sound: ConfigBytes
    boot: Callable[[], None]
    """What the vendor's kernel driver does to the GPU when it gets it."""


@dataclass(frozen=True, slots=True)
class Software:
    """What the machine's Linux has of the vendor."""

    driver: str
    """The kernel driver that the GPUs are made for."""
    bound: bool
    """Whether it has the GPUs at first, and has left traces in them."""
    files: Mapping[str, bytes]
    """Firmware files by path."""
    manifest: str
    """Path of the manifest of these."""


class PciMachine:
    """What all processes share: the bus, the kernel, files, locks."""

    def __init__(
        self, name: str, options: BusOptions, hardware: Chassis, cards: Sequence[Card],
        software: Software,
    ) -> None:  # fmt: skip
        self.name, self.options, self.hardware = name, options, hardware
        self.frames = Frames(options.huge_pages, hardware.find)
        self.tree = FileTree()
        self.kernel = Kernel(self.frames, hardware.find, options.memlock_bytes)
        self.writes: list[tuple[str, bytes]] = []
        """Every write to a file, in order."""
        self.firmware = software.manifest
        self._pids = itertools.count(1000)
        self._shared = Shared()
        self._slots = self._plug(cards, software.driver)
        loaded = drivers(software.driver)
        self.kernel.drivers = {n: d for n, d in loaded.items() if options.vfio or n != VFIO}
        if software.bound:
            for slot in self._slots:
                self.kernel.bind(software.driver, slot.address)
        self._proc = ProcFiles(
            self.tree, self.kernel, options.huge_pages, privileged=options.privileged
        )
        self._sysfs = PciSysfs(self.tree, self.kernel, options.connectors)
        self.kernel.changed = self._bound
        for slot in self.kernel.slots.values():
            self._bound(slot)
        self._nodes()
        for path, data in software.files.items():
            self.tree.put(path, data)

    @property
    def gpus(self) -> list[PciFunction]:
        """The GPUs, by address."""
        return [slot.gpu for slot in self._slots if slot.gpu is not None]

    def panel(self, gpu: int) -> BusPanel:
        """The fault panel of one GPU's bus."""
        return self._slots[gpu].panel

    def slot(self, gpu: int) -> Slot:
        """A GPU as the kernel has it."""
        return self._slots[gpu]

    # Building

    def _plug(self, cards: Sequence[Card], native: str) -> list[Slot]:
        find, slots, at = self.hardware.find, [], _FIRST_BAR
        for number, card in enumerate(cards):
            bus, group = FIRST_GPU + number, str(_GROUP + number) if self.options.iommu else ""
            make = partial(Slot, group=group, frames=self.frames, find=find)
            port = make(f"0000:{bus - 1 + 0x20:02x}:00.0", card.port, None)
            slot = make(f"0000:{bus:02x}:00.0", card.gpu.config, card.gpu)
            sound = make(f"0000:{bus:02x}:00.1", card.sound, None)
            slot.native, port.native, sound.native = native, "pcieport", "snd_hda_intel"
            port.driver, sound.driver = "pcieport", self.options.audio_driver
            slot.boot_vga = self.options.boot_vga and not number
            slot.window_bytes = self.options.window_bytes
            slot.panel.leave = partial(self._unplug, slot)
            slot.boot = card.boot
            at = slot.assign(at, _LOW_BAR + number * _LOW_BAR_BYTES)
            self.kernel.slots |= {one.address: one for one in (port, slot, sound)}
            slots.append(slot)
        return slots

    def _nodes(self) -> None:
        tree, kernel = self.tree, self.kernel
        if not self.options.vfio:
            return
        path = "/dev/vfio/vfio"
        tree.place(path, File(opens=lambda process, flags: Container(path, kernel, process)))
        if self.options.iommufd and self.options.iommu:
            iommu = "/dev/iommu"
            tree.place(iommu, File(opens=lambda process, flags: Iommufd(iommu, kernel, process)))

    def _bound(self, slot: Slot) -> None:
        """A binding changed: nodes come and go."""
        self._sysfs.refresh(slot)
        if slot.gpu is not None:
            self._vfio_nodes(slot)

    def _vfio_nodes(self, slot: Slot) -> None:
        number = self._slots.index(slot)
        group, device = f"/dev/vfio/{slot.group}", f"/dev/vfio/devices/vfio{number}"
        self.tree.remove(group)
        self.tree.remove(device)
        if slot.driver != VFIO:
            return
        kernel = self.kernel

        def open_group(process: PciWorld, flags: int) -> OpenFile:
            return Group(group, slot.group, kernel, process)

        def open_device(process: PciWorld, flags: int) -> OpenFile:
            return VfioCdev(device, kernel, process, slot)

        self.tree.place(group, File(opens=open_group))
        if self.options.iommufd:
            self.tree.place(device, File(opens=open_device))

    # Life

    def start(self) -> PciWorld:
        """A new process."""
        world = PciWorld(self, next(self._pids), f"board {self.name} over PCI")
        self._proc.processes[world.pid] = world
        return world

    def state_of(self, pid: int) -> BoardState:
        """The directory of locks and records as a process sees it."""
        return BoardState(self._shared, pid)

    def buried(self, pid: int) -> None:
        """A process is gone."""
        self._proc.processes.pop(pid, None)

    def wrote(self, path: str, data: bytes) -> None:
        """A process writes to a file."""
        self.writes.append((path, bytes(data)))

    def pump(self) -> None:
        """Everything that can move moves."""
        with self.hardware.lock:
            for _ in range(_PUMPS):
                if not sum(gpu.pump() for gpu in self.gpus):
                    break

    def _unplug(self, slot: Slot) -> None:
        """A GPU left the bus: memory behind its BARs is all ones."""
        ones = host.memory_file("gone", HUGE_BYTES)
        va = host.map_file(ones, 0, HUGE_BYTES)
        host.view(va, HUGE_BYTES)[:] = b"\xff" * HUGE_BYTES
        host.unmap(va, HUGE_BYTES)
        bars = slot.gpu.bars if slot.gpu is not None else {}
        for bar in bars.values():
            for process in self._proc.processes.values():
                if bar.pool is not None:
                    process.blind(bar.pool.fd, ones)
