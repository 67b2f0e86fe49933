"""What CUDA needs of a machine, for `python -m drivers.probe`."""

from __future__ import annotations

from typing import Final

from drivers.base.errors import DeviceError
from drivers.cuda import abi
from drivers.machine.behind import Seen, judged
from drivers.machine.checks import Machine, Result
from drivers.machine.surroundings import surroundings
from drivers.machine.system import find_library

CONTROL: Final = "/dev/nvidiactl"


def cuda(machine: Machine) -> Result:
    """NVIDIA's CUDA library, and every device that it has."""
    path = find_library(machine.world, machine.environ, abi.LIBRARY)
    if path is None:
        install = "install NVIDIA's driver package"
        return Result("CUDA", "", False, f"{abi.LIBRARY} is not installed", install)
    try:
        answers = machine.asked("drivers.cuda.survey:survey")
    except DeviceError as error:
        around = surroundings(machine.world)
        if machine.world.exists(CONTROL) or (around is not None and around.cuda_without_node):
            return Result("CUDA", "", False, f"{path}: {error.message}", error.hint)
        return Result(
            "CUDA", "", False, f"{path}, but no {CONTROL}", "`modprobe nvidia nvidia-uvm`"
        )
    seen = [Seen(one["title"], path) for one in answers.facts if "title" in one]
    return judged(machine, "CUDA", seen, answers, path, "see nvidia-smi")
