"""What OpenCL needs of a machine, for `python -m drivers.probe`."""

from __future__ import annotations

from drivers.cl.libraries import LOADER, vendors
from drivers.cl.platforms import MISSING
from drivers.cl.survey import ICD_FOLDER
from drivers.machine.behind import Seen, judged
from drivers.machine.checks import Machine, Result
from drivers.machine.system import find_library
from drivers.machine.text import entries


def opencl(machine: Machine) -> Result:
    """A library with a vendor behind it; then every device of it, with its driver's version."""
    path = find_library(machine.world, machine.environ, LOADER)
    named = [name for name in entries(machine.world, ICD_FOLDER) if name.endswith(".icd")]
    wheels = list(vendors(machine.world))
    if path is None and not wheels:
        return Result("CL", "", False, f"{LOADER} is not installed", MISSING)
    if not named and not wheels:
        return Result("CL", "", False, f"{path}, but no vendor in {ICD_FOLDER}", MISSING)
    answers = machine.asked("drivers.cl.survey:survey")
    # A platform that two libraries offer counts once, also where they were in two processes.
    first: dict[tuple[str, str], str] = {}
    seen = [
        Seen(
            one["title"], path or "" if one.get("library", "") == LOADER else one.get("library", "")
        )
        for one in answers.facts
        if "title" in one
        and first.setdefault(
            (one.get("platform", ""), one.get("version", "")), one.get("library", "")
        )
        == one.get("library", "")
    ]
    files = ", ".join([path or f"no {LOADER}", *named, *wheels])
    return judged(machine, "CL", seen, answers, f"{files}: no device", MISSING)
