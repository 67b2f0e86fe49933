"""The card behind the bridge, as a PCI session uses it: config space, BARs, reset.

The host's memory does not exist for the card, and no interrupt reaches the host.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NoReturn

from drivers.base.errors import BadArgument, DeviceGone
from drivers.base.undo import Undo
from drivers.pci.command import set_command
from drivers.usb.asm24 import fabric
from drivers.usb.asm24.bar_region import BarRegion
from drivers.usb.asm24.bridge import Bridge
from drivers.usb.asm24.fabric import Card

_DWORD: Final = 4
_BAR0: Final = 0x10
_ALL_ONES: Final = 0xFFFF_FFFF


class BridgedFunction:
    """`drivers.pci.session.Access` over a cable."""

    iommu = None

    def __init__(self, bridge: Bridge, card: Card, prompt: Collection[int] = frozenset()) -> None:
        """`prompt`: BARs of doorbells."""
        self.bridge, self.card, self._prompt = bridge, card, prompt
        self.address = f"0000:{card.bus:02x}:00.0"
        self._open = True

    def map_bar(self, number: int, *, combine: bool) -> BarRegion:
        """A whole BAR. Nothing collects writes but the streams of the bridge."""
        if number not in self.card.bars:
            raise BadArgument(f"{self.address} has no BAR {number}", hint=f"{list(self.card.bars)}")
        bar, name = self.card.bars[number], f"BAR {number} of {self.address}"
        return BarRegion(self.bridge, bar, name, prompt=number in self._prompt)

    def config_read(self, off: int, nbytes: int) -> int:
        """A number in config space."""
        lane = off % _DWORD
        value = self.bridge.read_config(self.card.bus, 0, off - lane) >> 8 * lane
        return value & (1 << 8 * nbytes) - 1

    def config_write(self, off: int, nbytes: int, value: int) -> None:
        """A number into config space; the bytes beside it are left alone."""
        lane = off % _DWORD
        enables = (1 << nbytes) - 1 << lane
        self.bridge.write_config(self.card.bus, 0, off - lane, value << 8 * lane, enables)

    def reset(self) -> None:
        """Power off and on. Everything on the card is lost."""
        self.bridge.power(on=False)
        self.bridge.power(on=True)
        self.bridge.wait_link()
        if fabric.open_fabric(self.bridge) != self.card:
            raise DeviceGone(
                f"{self.address}: another card answers after its reset",
                hint="open the GPU again",
            )

    def after_reset(self) -> None:
        """Base addresses as they were: a reset by the card's firmware may have lost them."""
        for number, bar in self.card.bars.items():
            at = _BAR0 + _DWORD * number
            self.config_write(at, _DWORD, bar.address & _ALL_ONES)
            if bar.wide:
                self.config_write(at + _DWORD, _DWORD, bar.address >> 32)
        set_command(self, master=False, anyway=True)

    def arm(self) -> bool:
        """No interrupt reaches the host."""
        return False

    def wait_interrupt(self, timeout_s: float) -> NoReturn:
        """Refused: nothing was armed."""
        raise BadArgument(f"{self.address} has no interrupts to wait {timeout_s} s for")

    def check_unviewed(self) -> None:
        """Nothing of it can be viewed."""

    def close(self) -> None:
        """Give the bridge back. A second close does nothing."""
        if self._open:
            self._open = False
            self.bridge.close()


def open_function(bridge: Bridge, prompt: Collection[int] = frozenset()) -> BridgedFunction:
    """Power, link, buses, BARs. The bridge is the function's from now on, and closed by a failure.

    Raises: NotFound, DeviceTimeout with what is missing.
    """
    with Undo() as undo:
        undo.add(bridge.close)
        if not bridge.link_up:
            bridge.power(on=True)
            bridge.wait_link()
        return BridgedFunction(bridge, fabric.open_fabric(bridge), prompt)
