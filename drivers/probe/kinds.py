"""Checks of the kinds without a driver: what each needs, looked for where Linux keeps it."""

from __future__ import annotations

import os
from typing import cast

from drivers.kinds import BEST_FIRST, named
from drivers.machine.buses import NVIDIA, PCI_ROOT
from drivers.machine.checks import device_node
from drivers.machine.system import find_library
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


def qcom_kgsl(machine: Machine) -> Result:
    """Adreno through Qualcomm's kernel driver."""
    return device_node(
        machine,
        "QCOM",
        "KGSL",
        "/dev/kgsl-3d0",
        "this is no Qualcomm machine, or its kernel has no msm_kgsl",
        "on a Qualcomm machine with a mainline kernel use QCOM_IFACE=MSM",
    )


def qcom_msm(machine: Machine) -> Result:
    """Adreno through the mainline kernel driver."""
    nodes = [path for path, driver in machine.nodes.items() if driver.startswith("msm")]
    if nodes:
        return device_node(machine, "QCOM", "MSM", nodes[0], "it went away", "look again")
    others = ", ".join(f"{path} ({driver or '?'})" for path, driver in machine.nodes.items())
    return Result(
        "QCOM",
        "MSM",
        False,
        f"no /dev/dri/renderD* of the msm kernel driver; there is: {others or 'none at all'}",
        "on a Qualcomm machine: `modprobe msm`",
    )


def cuda(machine: Machine) -> Result:
    """NVIDIA's CUDA library."""
    path = find_library(machine.world, machine.environ, "libcuda.so.1")
    if path is None:
        return Result(
            "CUDA", "", False, "libcuda.so.1 is not installed", "install NVIDIA's driver package"
        )
    if not machine.world.exists("/dev/nvidiactl"):
        return Result(
            "CUDA", "", False, f"{path}, but no /dev/nvidiactl", "`modprobe nvidia nvidia-uvm`"
        )
    return Result("CUDA", "", True, path)


def _check(place: str) -> Check:
    """A check that is imported when it is made."""
    return lambda machine: cast(Result, named(place)(machine))


CHECKS: dict[tuple[str, str], Check] = {
    (kind.name, way.name): _check(way.check)
    for kind in (BEST_FIRST[-1], *BEST_FIRST[:-1])
    for way in kind.ways
}
"""Every way to a device, in the order of the table."""
