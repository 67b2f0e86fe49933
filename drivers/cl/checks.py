"""What OpenCL needs of a machine, for `python -m drivers.probe`."""

from __future__ import annotations

from typing import Final

from drivers.cl.libraries import LOADER, vendors
from drivers.cl.platforms import MISSING, find
from drivers.machine.checks import Machine, Result
from drivers.machine.system import find_library
from drivers.machine.text import entries

ICD_FOLDER: Final = "/etc/OpenCL/vendors"


def opencl(machine: Machine) -> Result:
    """A library with a vendor behind it; then every device of it, with its driver's version.

    Libraries are loaded and asked, and nothing is created. Where that fails the files remain.
    """
    path = find_library(machine.world, machine.environ, LOADER)
    named = [name for name in entries(machine.world, ICD_FOLDER) if name.endswith(".icd")]
    wheels = list(vendors(machine.world))
    if path is None and not wheels:
        return Result("CL", "", False, f"{LOADER} is not installed", MISSING)
    if not named and not wheels:
        return Result("CL", "", False, f"{path}, but no vendor in {ICD_FOLDER}", MISSING)
    files = ", ".join([path or f"no {LOADER}", *named, *wheels])
    found, errors = find(machine.world)
    details: dict[str, object] = {
        "vendors": [*named, *wheels],
        "devices": [one.title for one in found],
        "missing": [error.message for error in errors],
    }
    shown = "; ".join(one.title for one in found)
    return Result("CL", "", True, shown or files, "", details)
