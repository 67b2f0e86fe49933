"""One function through its own files in sysfs: resourceN and config, where there is no IOMMU.

Power and enabling are the claim's.
Source: Linux Documentation/PCI/sysfs-pci.rst, Documentation/ABI/testing/sysfs-bus-pci.
"""

from __future__ import annotations

import os

from drivers.base.contracts import Region, World
from drivers.base.errors import BadArgument, DeviceGone, NotFound, Unsupported, during
from drivers.base.undo import Undo
from drivers.pci.bars import map_bar
from drivers.pci.command import read_command
from drivers.pci.config import COMMAND_MEMORY
from drivers.pci.functions import BARS, PciFunction

_WORD = 4
# src: include/uapi/linux/pci_regs.h PCI_BASE_ADDRESS_0
_BASE_ADDRESS = 0x10


class BarsFunction:
    """A function that no driver has. `open_bars` makes it."""

    iommu = None

    def __init__(self, world: World, function: PciFunction, config: int) -> None:
        self._world, self._function, self._fd = world, function, config
        self.address = function.address
        self._bars: tuple[int, ...] = ()
        self._open = True

    def map_bar(self, number: int, *, combine: bool) -> Region:
        """A whole BAR; `combine` collects writes."""
        return map_bar(self._world, self._function, number, combine=combine)

    def config_read(self, off: int, nbytes: int) -> int:
        """A number in config space."""
        with during(f"config space {off:#x}"):
            return int.from_bytes(self._world.pread(self._fd, nbytes, off), "little")

    def config_write(self, off: int, nbytes: int, value: int) -> None:
        """A number into config space."""
        with during(f"config space {off:#x}"):
            self._world.pwrite(self._fd, value.to_bytes(nbytes, "little"), off)

    def remember(self) -> None:
        """What `after_reset` puts back. Raises: Unsupported when nothing answers at the BARs."""
        with during(f"{self.address}: COMMAND"):
            if not read_command(self) & COMMAND_MEMORY:
                raise Unsupported("it is not enabled", hint="claim it for its BARs first")
        self._bars = self._addresses()

    def _addresses(self) -> tuple[int, ...]:
        return tuple(self.config_read(_BASE_ADDRESS + _WORD * bar, _WORD) for bar in range(BARS))

    def reset(self) -> None:
        """Reset the function through sysfs. Raises: Unsupported where it cannot be reset alone."""
        path = f"{self._function.folder}/reset"
        try:
            self._world.write(path, b"1")
        except NotFound as error:
            raise Unsupported(
                f"{self.address} offers no reset of its own", hint="let its firmware reset it"
            ) from error.__cause__

    def after_reset(self) -> None:
        """Base addresses as they were: a reset by its firmware may have lost them.

        Raises: DeviceGone when they do not stay as written.
        """
        for bar, (kept, now) in enumerate(zip(self._bars, self._addresses(), strict=True)):
            if kept != now:
                self.config_write(_BASE_ADDRESS + _WORD * bar, _WORD, kept)
        for bar, (kept, now) in enumerate(zip(self._bars, self._addresses(), strict=True)):
            if kept == now:
                continue
            raise DeviceGone(
                f"{self.address}: config space {_BASE_ADDRESS + _WORD * bar:#x}, the address of "
                f"BAR {bar}, is {now:#x} after {kept:#x} was written",
                hint="restart the machine, and see the kernel log (dmesg)",
            )

    def arm(self) -> bool:
        """Interrupts need a kernel driver: there are none."""
        return False

    def wait_interrupt(self, timeout_s: float) -> bool:
        """Refused: nothing was armed."""
        raise BadArgument(f"{self.address} has no interrupts to wait {timeout_s} s for")

    def check_unviewed(self) -> None:
        """A BAR that somebody views holds nothing up: no driver has the function."""

    def close(self) -> None:
        """Close the config file. A second close does nothing."""
        if self._open:
            self._open = False
            self._world.close(self._fd)


def open_bars(world: World, function: PciFunction) -> BarsFunction:
    """Open a function without a driver. Raises: Denied, Unsupported."""
    if function.driver:
        raise Unsupported(
            f"{function.address} is bound to {function.driver}", hint="claim it for its BARs first"
        )
    config = world.open(f"{function.folder}/config", os.O_RDWR)
    opened = BarsFunction(world, function, config)
    with Undo() as undo:
        undo.add(opened.close)
        opened.remember()
    return opened
