"""Checks of the kinds without a driver: what each needs, looked for where Linux keeps it."""

from __future__ import annotations

import os
from typing import cast

from drivers.kinds import BEST_FIRST, named
from drivers.machine.buses import NVIDIA, PCI_ROOT
from drivers.probe import Check, Machine, Result


def _pci(machine: Machine, kind: str, vendor: int, name: str, module: str) -> Result:
    """A GPU that no driver holds, with registers this user may map."""
    gpus = [gpu for gpu in machine.gpus if gpu.vendor == vendor]
    details = {"gpus": [str(gpu) for gpu in gpus]}
    if not gpus:
        return Result(
            kind, "PCI", False, f"no {name} GPU is on PCI", f"see `lspci -d {vendor:04x}:`"
        )
    shown = "; ".join(details["gpus"])
    free = [gpu for gpu in gpus if gpu.driver in ("", "vfio-pci")]
    if not free:
        advice = f"leave it to {module}, or unbind it first (never one that drives a display)"
        return Result(kind, "PCI", False, shown, advice, details)
    path = f"{PCI_ROOT}/{free[0].address}/resource0"
    if free[0].driver == "" and not machine.world.access(path, os.R_OK | os.W_OK):
        advice = f"bind {free[0].address} to vfio-pci and give this user its /dev/vfio group"
        return Result(kind, "PCI", False, f"{shown}; {path} may not be opened", advice, details)
    return Result(kind, "PCI", True, shown, "", details)


def nv_pci(machine: Machine) -> Result:
    """NVIDIA without a kernel driver."""
    return _pci(machine, "NV", NVIDIA, "NVIDIA", "nvidia (NV_IFACE=NVK)")


def _check(place: str) -> Check:
    """A check that is imported when it is made."""
    return lambda machine: cast(Result, named(place)(machine))


CHECKS: dict[tuple[str, str], Check] = {
    (kind.name, way.name): _check(way.check)
    for kind in (BEST_FIRST[-1], *BEST_FIRST[:-1])
    for way in kind.ways
}
"""Every way to a device, in the order of the table."""
