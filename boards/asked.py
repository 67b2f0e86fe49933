"""Options of command lines that a chip's board does not have: refused, with those that it has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from boards.setup import OVER_PCI, OVER_USB
from boards.vendors import Vendor, vendor_of

_WITHOUT_A_DRIVER = (OVER_PCI, OVER_USB)


def over_pci(chip: str) -> str:
    """A board that is a PCI function, too. Raises: ValueError with those there are."""
    vendor = vendor_of(chip)
    if chip not in vendor.pci_names:
        raise ValueError(_absent(chip, vendor, OVER_PCI))
    return chip


def _absent(chip: str, vendor: Vendor, iface: str) -> str:
    there = ", ".join(vendor.pci_names)
    return f"no board {chip!r} over {iface}: " + (
        f"there are {there}" if there else _ifaces(vendor)
    )


def _ifaces(vendor: Vendor) -> str:
    return f"{vendor.device}'s boards have {' and '.join(vendor.ifaces)}"


def check_options(
    chip: str, *, iface: str = "", compiler: str = "", aql: bool | None = None, dma: str = "",
    trace: Path | None = None, kernel: str = "",
) -> None:  # fmt: skip
    """Options that are set have a meaning for a chip's board. Raises: ValueError."""
    vendor = vendor_of(chip)
    _one_of("--iface", iface, vendor, vendor.ifaces)
    _one_of("--compiler", compiler, vendor, vendor.compilers)
    used = iface or vendor.ifaces[0]
    _known_kernel(kernel, chip, vendor, used)
    if used in _WITHOUT_A_DRIVER and chip not in vendor.pci_names:
        raise ValueError(_absent(chip, vendor, used))
    if aql is not None and not vendor.aql:
        raise ValueError(f"{chip} has one kind of packet: leave --aql and --pm4 out")
    for option, value in (("--dma", dma), ("--trace", trace)):
        if value and used not in _WITHOUT_A_DRIVER:
            fitting = [name for name in vendor.ifaces if name in _WITHOUT_A_DRIVER]
            advice = f"add --iface {' or '.join(fitting)}" if fitting else "leave it out"
            raise ValueError(f"{option} says nothing about {chip} over {used}: {advice}")


def _known_kernel(kernel: str, chip: str, vendor: Vendor, iface: str) -> None:
    known = vendor.kernels.get(iface, ())
    if kernel and not known:
        raise ValueError(f"{chip} over {iface} has one set of rules: leave --kernel out")
    if kernel and kernel not in known:
        there = " or ".join(known)
        raise ValueError(f"--kernel {kernel} is not for {chip} over {iface}: use {there}")


def _one_of(option: str, value: str, vendor: Vendor, known: Sequence[str]) -> None:
    if value and value not in known:
        raise ValueError(
            f"{option} {value} is not for {vendor.device}'s boards: use {' or '.join(known)}"
        )
