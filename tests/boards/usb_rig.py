"""A board of the USB bridge with a GPU behind it, and the driver in front."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from boards.amd.hardware import Options
from boards.amd.pci.firmware_set import MANIFEST
from boards.amd.pci.gpu import PciGpu
from boards.amd.usb_machine import open_usb_board
from drivers.amd.chips import BUS_ADDRESS_BITS, chip_of_device
from drivers.amd.device import AmdDevice
from drivers.amd.firmware.assemble import FirmwareSet, assemble
from drivers.amd.opening import open_amd
from drivers.amd.pci import boot
from drivers.amd.pci.gpu import BareGpu
from drivers.base.contracts import World
from drivers.base.pci import StateStore
from drivers.base.turns import Jobs
from drivers.choice import choose
from drivers.firmware import chosen_manifest, load
from drivers.pci.dma import Grade
from drivers.pci.session import PciSession
from drivers.usb.asm24.bridge import Bridge
from drivers.usb.asm24.function import open_function
from drivers.world.foreign import ForeignWorld
from drivers.world.foreign_state import ForeignState
from tests.support import check

VRAM_BYTES = 512 << 20
WHERE = (2, 7)
"""busnum and devnum of the enclosure."""


class UsbRig:
    """One enclosure on one cable."""

    def __init__(
        self, chip: str = "gfx1100", *, card: bool = True, options: Options | None = None
    ) -> None:
        strictness = replace(options or Options(), vram_bytes=VRAM_BYTES)
        self.board = open_usb_board(chip, vram_bytes=VRAM_BYTES, card=card, strictness=strictness)
        machine = self.board.machine
        self.hardware, self.device, self.cable = (
            machine.hardware, machine.bridges[0], machine.cables[0]
        )  # fmt: skip
        self._cards = machine.cards

    @property
    def gpu(self) -> PciGpu:
        """What is in the enclosure."""
        return self._cards[0]

    def process(self) -> tuple[World, StateStore]:
        """Another process: its world, and the directory of locks as it sees it."""
        board = self.board.machine.start()
        return ForeignWorld(board, usb=board.usb), ForeignState(board.state)

    def world(self) -> World:
        """The world of another process."""
        return self.process()[0]

    def bridge(self) -> Bridge:
        """The bridge, opened, with a link."""
        world = self.world()
        bridge = Bridge(world.usb(*WHERE, 0), world)
        bridge.power(on=True)
        bridge.wait_link()
        return bridge

    @contextmanager
    def identified(self) -> Iterator[BareGpu]:
        """The GPU behind it, its discovery table read; the cable is given back at the end."""
        world = self.world()
        function = open_function(Bridge(world.usb(*WHERE, 0), world))
        bridge = function.bridge
        session = PciSession(
            world, function, Grade.NONE, BUS_ADDRESS_BITS, bridge, Jobs(bridge.lock)
        )
        chip = chip_of_device(function.card.device)
        if chip is None:
            raise KeyError(hex(function.card.device))
        try:
            yield boot.identify(session, chip, function.card.device)
        finally:
            session.close()

    @contextmanager
    def opened(self, **environ: str) -> Iterator[AmdDevice]:
        """The product's device on it; the cable is given back at the end."""
        chosen = {"DEV": "AMD:0", "AMD_IFACE": "USB", "UNBOUND_FIRMWARE_MANIFEST": MANIFEST}
        world, state = self.process()
        with open_amd(world, choose(chosen | environ), state=state) as device:
            yield device
        check(not self.cable.open, "the interface is still claimed")
        check(not state.names(), f"{state.names()} is left")

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
