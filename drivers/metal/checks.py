"""What Metal needs of a machine, for `python -m drivers.probe`."""

from __future__ import annotations

from drivers.base.errors import DeviceError
from drivers.machine.checks import Machine, Result
from drivers.machine.text import first_line
from drivers.metal.api import Api
from drivers.metal.facts import devices, read_facts

_NEVER: str = "this driver was never run on Apple hardware: report what fails"


def metal(machine: Machine) -> Result:
    """Every device with its families; Metal is macOS alone.

    The libraries are loaded and asked, and nothing is created.
    """
    system = first_line(machine.world, "/proc/sys/kernel/ostype")
    if system:
        return Result("METAL", "", False, f"this is {system}; Metal is macOS", "use a Mac")
    try:
        api = Api(machine.world)
        found = devices(api)
    except DeviceError as error:
        return Result("METAL", "", False, error.message, error.hint)
    lines: list[str] = []
    missing: list[str] = []
    for one in found:
        try:
            facts = read_facts(api, one.handle)
            lines.append(f"{facts.title} ({', '.join(sorted(facts.families))})")
        except DeviceError as error:
            missing.append(error.message)
        finally:
            one.release()
    details = {"devices": lines, "missing": missing}
    reason = "; ".join(lines or missing)
    return Result("METAL", "", bool(lines), reason, _NEVER, details)
