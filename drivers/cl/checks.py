"""What OpenCL needs of a machine, for `python -m drivers.probe`."""

from __future__ import annotations

from drivers.cl.platforms import MISSING, find
from drivers.machine.checks import Machine, Result


def opencl(machine: Machine) -> Result:
    """Every device of every platform, with its driver's version."""
    found, errors = find(machine.world)
    missing = "; ".join(error.message for error in errors)
    if not found:
        return Result("CL", "", False, missing or "no library has a platform", MISSING)
    titles = [one.title for one in found]
    details = {"devices": titles, "missing": missing}
    return Result("CL", "", True, "; ".join(titles), "", details)
