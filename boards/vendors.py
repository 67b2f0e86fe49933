"""The vendors that boards exist of: one record each, which every command of `boards` asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from boards.amd import registration as amd
from boards.machine.chassis import Chassis
from boards.machine.pci.function import PciFunction


@dataclass(frozen=True, slots=True)
class Vendor:
    """What boards of one vendor are called, and how one is made."""

    device: str
    """The kind of device that the product opens on one: "AMD"."""
    names: Sequence[str]
    """Chips."""
    pci_names: Sequence[str]
    """Those that there are over PCI, too."""
    describe: Callable[[str], str]
    """A chip's row of `python -m boards`."""
    function: Callable[[str, int], tuple[Chassis, PciFunction]]
    """(chip, bytes of its memory) -> the GPU as a PCI function, for a virtual machine."""


VENDORS = (Vendor("AMD", amd.NAMES, amd.PCI_NAMES, amd.describe, amd.function),)


def names() -> list[str]:
    """Every chip that there is a board of."""
    return [name for vendor in VENDORS for name in vendor.names]


def vendor_of(chip: str) -> Vendor:
    """Whose a chip is. Raises: ValueError with the boards there are."""
    for vendor in VENDORS:
        if chip in vendor.names:
            return vendor
    raise ValueError(f"no board {chip!r}: there are {', '.join(names())}")
