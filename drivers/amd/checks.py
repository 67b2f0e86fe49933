"""What each interface to an AMD GPU requires, for `python -m drivers.probe`, and its offers."""

from __future__ import annotations

from drivers.amd.kfd.offers import offered
from drivers.base.offer import Offer, Passed
from drivers.choice import choose
from drivers.machine.buses import AMD, pci_listing
from drivers.machine.checks import Machine, Result, device_node, module_missing


def kfd(machine: Machine) -> Result:
    """AMD through the amdgpu kernel driver; may also be the default device."""
    missing, advice = module_missing(machine, AMD, "AMD", "amdgpu")
    node = device_node(machine, "AMD", "KFD", "/dev/kfd", missing, advice)
    if not node.ready:
        return node
    found = list(offered(machine.world, machine.environ))
    offers = [one for one in found if isinstance(one, Offer)]
    passed = [one for one in found if isinstance(one, Passed)]
    against = [one.reason if one.name == "AMD KFD" else str(one) for one in passed]
    reason = "; ".join([*(f"{one.name}: {one.title}" for one in offers), *against])
    advice = next((one.advice for one in passed if one.advice), "")
    return Result("AMD", "KFD", bool(offers), reason, advice or "python -m drivers.amd.probe")


def pci(machine: Machine) -> Result:
    """AMD without a kernel driver: a known chip that may be claimed, and its firmware."""
    from drivers.amd.pci.survey import candidates

    found = candidates(machine.world, choose(machine.environ))
    if not found:
        advice = f"see `lspci -d {AMD:04x}:`"
        for other in pci_listing(machine.world)[1]:
            reason = f"no AMD GPU is on PCI; {other.reason}"
            return Result("AMD", "PCI", False, reason, other.advice)
        return Result("AMD", "PCI", False, "no AMD GPU is on PCI", advice)
    details = {"gpus": [str(one.function) for one in found]}
    for one in found:
        if one.ready:
            reason = f"{one.function}; {one.facts()[1]}; AMD_IFACE=PCI would claim and boot it"
            return Result("AMD", "PCI", True, reason, "", details)
    first = found[0]
    obstacle = first.obstacles[0]
    advice = obstacle.advice or "python -m drivers.amd.probe --iface PCI tells more"
    return Result("AMD", "PCI", False, f"{first.function}; {obstacle.reason}", advice, details)


def usb(machine: Machine) -> Result:
    """AMD behind a PCIe-over-USB bridge: an enclosure whose firmware sends packets."""
    from drivers.usb.asm24.enclosures import enclosures
    from drivers.usb.asm24.usb4 import usb4_enclosures

    found = enclosures(machine.world)
    if not found:
        for tunnel in usb4_enclosures(machine.world):
            return Result("AMD", "USB", False, f"{tunnel}: {tunnel.reason}", tunnel.advice)
        return Result(
            "AMD", "USB", False, "no enclosure with an ASM2464PD is on USB",
            "see `lsusb`, and docs/usb.md for what is supported",
        )  # fmt: skip
    details = {"enclosures": [str(one) for one in found]}
    best = next((one for one in found if one.usable), found[0])
    reason = f"{best}; {best.reason}" if best.reason else str(best)
    return Result("AMD", "USB", best.usable, reason, best.advice, details)
