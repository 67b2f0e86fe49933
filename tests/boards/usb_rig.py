"""A board of the USB bridge with a GPU behind it, and the driver in front."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from boards.amd.hardware import Hardware, Options
from boards.amd.pci.firmware_set import MANIFEST, world_files
from boards.amd.pci.gpu import open_function as open_board
from boards.amd.pci.options import PciOptions
from boards.machine.clock import Clock
from boards.usb.asm24 import Asm24
from boards.usb.cable import Cable
from drivers.amd.chips import BUS_ADDRESS_BITS, chip_of_device
from drivers.amd.firmware.assemble import FirmwareSet, assemble
from drivers.amd.pci import boot
from drivers.amd.pci.gpu import BareGpu
from drivers.base.contracts import World
from drivers.firmware import chosen_manifest, load
from drivers.pci.dma import Grade
from drivers.pci.session import PciSession
from drivers.usb.asm24.bridge import Bridge
from drivers.usb.asm24.function import open_function
from drivers.world.foreign import ForeignWorld
from tests.fake_machine import FakeMachine, enclosure

VRAM_BYTES = 512 << 20


class Machine(FakeMachine):
    """A machine with the board's time."""

    def __init__(self, clock: Clock, files: Mapping[str, bytes]) -> None:
        super().__init__(files)
        self._clock = clock

    def monotonic_s(self) -> float:
        return self._clock.now_s()

    def sleep(self, seconds: float) -> None:
        self._clock.skip(seconds)


class UsbRig:
    """One enclosure on one cable."""

    def __init__(self, chip: str = "gfx1100", *, card: bool = True) -> None:
        self.hardware = Hardware([], Options(vram_bytes=VRAM_BYTES))
        options = PciOptions(bar_bytes=256 << 20)
        self.gpu = open_board(self.hardware, chip, vram_bytes=VRAM_BYTES, options=options)
        self.device = Asm24(self.hardware, self.gpu if card else None)
        self.cable = Cable(self.device, self.hardware.clock)

    def world(self) -> World:
        """A process's world in which the cable is the only device."""
        files = {**world_files([self.gpu.chip.name]), **enclosure("add1:0001", "custom v0.1")}
        return ForeignWorld(
            Machine(self.hardware.clock, files),
            usb=lambda bus, address, interface: self.cable.claim(),
        )

    def bridge(self) -> Bridge:
        """The bridge, opened, with a link."""
        world = self.world()
        bridge = Bridge(world.usb(1, 2, 0), world)
        bridge.power(on=True)
        bridge.wait_link()
        return bridge

    @contextmanager
    def identified(self) -> Iterator[BareGpu]:
        """The GPU behind it, its discovery table read; the cable is given back at the end."""
        world = self.world()
        function = open_function(Bridge(world.usb(1, 2, 0), world))
        session = PciSession(world, function, Grade.NONE, BUS_ADDRESS_BITS, function.bridge)
        chip = chip_of_device(function.card.device)
        if chip is None:
            raise KeyError(hex(function.card.device))
        try:
            yield boot.identify(session, chip, function.card.device)
        finally:
            session.close()

    def firmware(self) -> FirmwareSet:
        """The synthetic files of the board, checked and parsed."""
        world, device = self.world(), self.gpu.chip.properties["device_id"]
        manifest = chosen_manifest(world, MANIFEST, "")
        chip = self.gpu.chip.name
        images = load(world, manifest, chip, device=device, revision=0, folder=None, named={})
        return assemble(images, device)

    def violations(self) -> list[str]:
        """What the board found."""
        return [str(found) for found in self.hardware.violations]
