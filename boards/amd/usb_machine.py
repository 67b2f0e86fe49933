"""A machine with AMD GPUs in enclosures on USB: `open_usb_board("gfx1100")`."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import NoReturn

from boards.amd.hardware import Hardware
from boards.amd.hardware import Options as Strictness
from boards.amd.pci.firmware_set import MANIFEST, world_files
from boards.amd.pci.gpu import PciGpu, open_function
from boards.amd.pci.options import PciOptions
from boards.machine.file_tree import File
from boards.machine.pci.function import PciFunction
from boards.machine.pci.machine import BusOptions, PciMachine, Software
from boards.machine.pci.world import PciWorld
from boards.usb.asm24 import Asm24
from boards.usb.cable import Cable

_BUS, _FIRST = 2, 7
"""busnum and devnum of the first enclosure; the others follow."""
_MBIT_S = 10_000
_BAR_BYTES = 256 << 20
"""As cards come out of reset: the host enlarges it."""


def _refused(process: object, flags: int) -> NoReturn:
    raise OSError(errno.ENOSYS, "a board's USB is reached by its transfers alone")


def _ignored(data: bytes) -> None:
    """A node that this user may write."""


class UsbMachine(PciMachine):
    """No GPU on PCI: all of them behind bridges, each on a cable of its own."""

    def __init__(self, name: str, hardware: Hardware, cards: Sequence[PciGpu | None]) -> None:
        software = Software("amdgpu", False, world_files([name]), MANIFEST)
        super().__init__(f"{name} on USB", BusOptions(gpus=0), hardware, [], software)
        self.cards = [card for card in cards if card is not None]
        self.bridges = [
            Asm24(hardware, card, serial=f"c0ffee{number:02}")
            for number, card in enumerate(cards, 1)
        ]
        self.cables = [
            Cable(bridge, hardware, f"{_BUS}-{number + 1}")
            for number, bridge in enumerate(self.bridges)
        ]
        for number in range(len(cards)):
            self.show(number)

    @property
    def gpus(self) -> list[PciFunction]:
        """Those behind the bridges."""
        return list(self.cards)

    def show(self, number: int) -> None:
        """What sysfs and /dev say of an enclosure."""
        about, folder = (
            self.bridges[number].descriptors,
            f"/sys/bus/usb/devices/{_BUS}-{number + 1}",
        )
        facts = {
            "idVendor": f"{about.vendor:04x}", "idProduct": f"{about.product:04x}",
            "manufacturer": about.manufacturer, "product": about.product_name,
            "serial": about.serial, "busnum": _BUS, "devnum": _FIRST + number, "speed": _MBIT_S,
        }  # fmt: skip
        for key, value in facts.items():
            self.tree.put(f"{folder}/{key}", f"{value}\n".encode())
        node = f"/dev/bus/usb/{_BUS:03}/{_FIRST + number:03}"
        self.tree.place(node, File(opens=_refused, write=_ignored))

    def cable_at(self, bus: int, address: int) -> Cable:
        """Raises: OSError ENODEV."""
        number = address - _FIRST
        if bus != _BUS or not 0 <= number < len(self.cables) or self.cables[number].gone:
            raise OSError(errno.ENODEV, f"no USB device {bus}-{address}")
        return self.cables[number]

    def start(self) -> UsbWorld:
        """A new process."""
        world = UsbWorld(self, next(self._pids), f"board {self.name}")
        self._proc.processes[world.pid] = world
        return world


class UsbWorld(PciWorld):
    """One process of it."""

    machine: UsbMachine

    def __init__(self, machine: UsbMachine, pid: int, name: str) -> None:
        super().__init__(machine, pid, name)
        self._claimed: list[Cable] = []

    def usb(self, bus: int, address: int, interface: int) -> Cable:
        """Open a device and claim an interface of it. Raises: OSError."""
        self._alive()
        cable = self.machine.cable_at(bus, address).claim()
        cable.killed = self.kill
        self._claimed.append(cable)
        return cable

    def kill(self) -> None:
        """SIGKILL: the kernel releases what the process had claimed."""
        for cable in self._claimed:
            cable.close()
        self._claimed.clear()
        super().kill()


def open_usb_board(
    name: str, *, gpus: int = 1, vram_bytes: int = 1 << 30, strictness: Strictness | None = None,
    card: bool = True,
) -> UsbWorld:  # fmt: skip
    """A machine with GPUs of a kind in enclosures, and a process in front of it."""
    hardware = Hardware([], strictness or Strictness(vram_bytes=vram_bytes))
    options = PciOptions(bar_bytes=min(_BAR_BYTES, vram_bytes))
    cards = [
        open_function(hardware, name, vram_bytes=vram_bytes, options=options) if card else None
        for _ in range(gpus)
    ]
    return UsbMachine(name, hardware, cards).start()
