"""What Metal needs of a machine, for `python -m drivers.probe`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from drivers.base.errors import DeviceError
from drivers.machine.behind import Seen, judged
from drivers.machine.checks import Machine, Result
from drivers.metal import abi
from drivers.metal.system import elsewhere

_NEVER: Final = "this driver was never run on Apple hardware: report what fails"


def metal(machine: Machine) -> Result:
    """Every device with its families; Metal is macOS alone."""
    other = elsewhere(machine.world)
    if other is not None:
        return Result("METAL", "", False, other.message, other.hint)
    try:
        answers = machine.asked("drivers.metal.survey:survey")
    except DeviceError as error:
        return Result("METAL", "", False, error.message, error.hint)
    seen = [Seen(one["title"], abi.METAL) for one in answers.facts if "title" in one]
    found = judged(machine, "METAL", seen, answers, "Metal has no device", _NEVER)
    return replace(found, advice=found.advice or _NEVER)
