"""Joins software GPUs and the product: a machine, and the product's devices opened on it.

The board stands behind the product's driver as a machine does, through /dev/kfd or on the PCI bus;
it shares no code with the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from boards.amd.cp.engines import Engines
from boards.amd.kfd.world import BoardWorld
from boards.amd.machine import Checks, Options, open_board
from boards.amd.pci.options import PciOptions
from boards.amd.pci_machine import MachineOptions, open_pci_board
from boards.amd.wave.types import LENIENT
from boards.machine.pci.world import PciWorld
from drivers.amd.device import AmdDevice
from drivers.amd.opening import open_amd
from drivers.base.contracts import Device, Machine, Region, World
from drivers.base.pci import StateStore
from drivers.base.region import MemoryRegion
from drivers.choice import choose
from drivers.world.foreign import ForeignWorld
from drivers.world.foreign_state import ForeignState
from drivers.world.linux import LinuxWorld

IFACES = ("KFD", "PCI")
Board = BoardWorld | PciWorld
_CARD_BYTES = 1 << 30


class OnBoard(Device, Protocol):
    """The product's device on a board's GPU; it knows the names of what it has loaded."""

    def program_names(self, *, code_va: int = 0) -> list[str]:
        """Kernels whose code is at an address."""
        ...


@dataclass(frozen=True, slots=True)
class Setup:
    """Which board, and how the product uses it."""

    chip: str
    gpus: int = 1
    aql: bool | None = None
    """What compute queues read; None for what the chip does best."""
    compiler: str = "LLVM"
    strict: bool = True
    vram_bytes: int | None = None
    """None: what a board of the chip has by itself."""
    iface: str = "KFD"
    dma: str = ""
    """UNBOUND_DMA over PCI: "" for what the machine has, "vram" for a machine without an IOMMU."""
    late: bool = False
    """Queues run late, as silicon's do, so that a driver that forgets to wait is noticed."""
    function: PciOptions = field(default_factory=PciOptions)
    trace: str = ""
    """File for every register access over PCI."""

    @property
    def environ(self) -> dict[str, str]:
        """What a user would set: the board's GPU is the default device."""
        found = {"DEV": "AMD", f"AMD_{self.compiler}": "1"}
        if self.iface != IFACES[0]:
            found["AMD_IFACE"] = self.iface
        if self.dma:
            found["UNBOUND_DMA"] = self.dma
        if self.trace:
            found["UNBOUND_TRACE"] = self.trace
        return found if self.aql is None else {**found, "AMD_AQL": str(int(self.aql))}

    @property
    def arguments(self) -> list[str]:
        """The same for `python -m boards run`."""
        found = ["--compiler", self.compiler, "--iface", self.iface]
        if self.dma:
            found += ["--dma", self.dma.lower()]
        if self.aql is not None:
            found.append("--aql" if self.aql else "--pm4")
        return found

    def options(self) -> Options:
        """How strict the board is."""
        made = Options() if self.strict else lenient()
        return replace(made, late=self.late)


def lenient() -> Options:
    """A board that only refuses what silicon refuses."""
    return Options(
        checks=Checks(poison=False, coherence=False),
        engines=lambda host: Engines(host, LENIENT),
    )


@dataclass(frozen=True, slots=True)
class Front:
    """A process in front of a board, as the product sees it."""

    board: Board
    world: World
    state: StateStore | None
    environ: Mapping[str, str]

    def open(self, index: int = 0) -> AmdDevice:
        """The product's device on a GPU of the board. Raises: DeviceError."""
        choice = choose({**self.environ, "DEV": f"AMD:{index}"})
        return open_amd(self.world, choice, state=self.state)


class WholeMachine(ForeignWorld):
    """The machine that a board's GPUs are in: its processor, and what /proc says, are this one's.

    So the CPU device opens on it, too.
    """

    def __init__(self, inner: Machine) -> None:
        super().__init__(inner)
        self.processor = LinuxWorld()

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        """A file of the board, or of the processor."""
        if path.startswith("/proc/"):
            return self.processor.read(path, limit_bytes)
        return super().read(path, limit_bytes)

    def protect(self, region: Region, *, write: bool, execute: bool) -> None:
        """Memory of the board's process, or a part of it that the CPU's loader cut out."""
        if isinstance(region, MemoryRegion):
            self.processor.protect(region, write=write, execute=execute)
        else:
            super().protect(region, write=write, execute=execute)


def front_of(board: Board, environ: Mapping[str, str]) -> Front:
    """A process that has started, with an environment."""
    machine: Any = board  # it has a machine's methods, but no type in common with us
    if isinstance(board, BoardWorld):
        return Front(board, WholeMachine(machine), None, environ)
    world = ForeignWorld(machine)
    own: Any = board.state
    own_environ = {**environ, "UNBOUND_FIRMWARE_MANIFEST": board.firmware}
    return Front(board, world, ForeignState(own), own_environ)


def power_on(setup: Setup) -> Front:
    """A machine with the GPUs that `setup` names. Raises: ValueError."""
    make: Callable[[Setup], Board] = _over_pci if setup.iface == "PCI" else _over_kfd
    return front_of(make(setup), setup.environ)


def _over_kfd(setup: Setup) -> Board:
    options = setup.options()
    return open_board(setup.chip, gpus=setup.gpus, vram_bytes=setup.vram_bytes, options=options)


def _over_pci(setup: Setup) -> Board:
    options = MachineOptions(
        gpus=setup.gpus,
        vram_bytes=setup.vram_bytes or _CARD_BYTES,
        iommu=setup.dma.upper() in ("", "IOMMU"),
        function=setup.function,
        strictness=setup.options(),
    )
    return open_pci_board(setup.chip, options=options)
