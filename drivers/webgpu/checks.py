"""What WebGPU needs of a machine, for `python -m drivers.probe`."""

from __future__ import annotations

from drivers.machine.behind import Seen, judged
from drivers.machine.checks import Machine, Result
from drivers.machine.system import find_library
from drivers.webgpu.adapters import MISSING, NO_ADAPTER
from drivers.webgpu.libraries import INSTALL, SYSTEM, places


def webgpu(machine: Machine) -> Result:
    """A library with an adapter; then every adapter of it."""
    paths = [find_library(machine.world, machine.environ, name) for name in SYSTEM]
    files = [path for path in paths if path]
    files += [path for path in places(machine.world) if path not in SYSTEM]
    if not files:
        return Result("WEBGPU", "", False, "no wgpu-native or Dawn library", INSTALL)
    answers = machine.asked("drivers.webgpu.survey:survey")
    seen = [Seen(one["title"], one.get("library", "")) for one in answers.facts if "title" in one]
    # A name that the loader does not find is of no interest where a library is there.
    unknown = set(SYSTEM) - {path.rpartition("/")[2] for path in files}
    answers.facts = [one for one in answers.facts if one.get("library") not in unknown]
    return judged(machine, "WEBGPU", seen, answers, f"{files[0]} {NO_ADAPTER}", MISSING)
