"""`python -m drivers.amd.smi [--json]`: clocks, power, temperatures, memory of AMD GPUs.

A GPU that amdgpu drives is read through sysfs. An unbound one is read itself, if it
was booted over PCI and left again; while a program uses it, only that program can ask.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from drivers.amd.pci import gmc, ownership, smu, smu_metrics
from drivers.amd.pci.ownership import Found
from drivers.amd.tools import sensors
from drivers.amd.tools.bare import free_gpus, looked_at
from drivers.amd.tools.readings import Readings
from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.base.pci import StateStore
from drivers.board_option import add_board_option, in_front_of
from drivers.machine.buses import AMD
from drivers.machine.output import print_text
from drivers.pci.functions import PciFunction, gpus
from drivers.world.linux import LinuxWorld
from unbound import terminal

_KERNEL_DRIVER: Final = "amdgpu"
_GIB: Final = 1 << 30
_UNITS: Final = {"mhz": "MHz", "w": "W", "c": "C", "rpm": "rpm", "percent": "%", "bytes": "bytes"}


@dataclass(frozen=True, slots=True)
class Line:
    """One GPU: its readings, and what it does not report."""

    function: PciFunction
    readings: Readings
    lacks: tuple[str, ...]


def look(
    world: World, state: StateStore | None, trace: str | None = None, *, claims: bool = False
) -> list[Line]:
    """Every AMD GPU on PCI. Those without driver are asked where `state` says where claims are, or,
    at this user's own place, with `claims`.

    `trace` is a file for the register accesses; each GPU's name ends in its PCI address.
    """
    free = {one.address for one in free_gpus(world)}
    claims = claims or state is not None
    return [
        _one(world, state, function, trace, asked=claims and function.address in free)
        for function in gpus(world)
        if function.vendor == AMD
    ]


def _one(
    world: World, state: StateStore | None, function: PciFunction, trace: str | None, *, asked: bool
) -> Line:
    if function.driver == _KERNEL_DRIVER:
        readings, lacks = sensors.read(world, function.folder)
        return Line(function, readings, tuple(lacks))
    if not asked:
        driver = function.driver or "nobody"
        return Line(function, Readings(), (f"{driver} drives it, and reports nothing here",))
    try:
        return _ask(world, state, function, trace)
    except DeviceError as error:
        return Line(function, Readings(), (str(error),))


def _ask(world: World, state: StateStore | None, function: PciFunction, trace: str | None) -> Line:
    file = None if trace is None else f"{trace}.{function.address}"
    with looked_at(world, state, function, file) as gpu:
        memory = Readings(memory_bytes=gpu.vram_bytes)
        found = ownership.look(gpu)
        if found is not Found.WARM:
            why = f"{found.value}: only a GPU that was booted over PCI and left can be asked"
            return Line(function, memory, (why,))
        gmc.locate(gpu)
        readings = smu_metrics.metrics(gpu)
        limit = float(smu.power_limit_w(gpu))
        return Line(function, sensors.merged(sensors.merged(readings, memory),
                                             Readings(power_limit_w=limit)), ())  # fmt: skip


def _shown(name: str, value: float) -> str:
    what, _, unit = name.rpartition("_")
    if unit == "bytes":
        return f"{what.replace('_', ' ')} {value / _GIB:.1f} GiB"
    number = f"{value:.1f}" if isinstance(value, float) else str(value)
    return f"{what.replace('_', ' ')} {number} {_UNITS[unit]}"


def as_text(lines: Sequence[Line]) -> str:
    """A line for each GPU, and below it what the GPU does not report."""
    if not lines:
        return "no AMD GPU is on PCI"
    out = []
    for line in lines:
        shown = ", ".join(_shown(name, value) for name, value in line.readings.known().items())
        out.append(f"{line.function}: {shown or 'nothing'}")
        out += [f"    {lack}" for lack in line.lacks]
    return "\n".join(out)


def as_json(lines: Sequence[Line]) -> str:
    """A list with an object for each GPU."""
    return json.dumps(
        [
            {
                "address": line.function.address,
                "driver": line.function.driver or None,
                "readings": line.readings.known(),
                "lacks": list(line.lacks),
            }
            for line in lines
        ],
        indent=2,
    )


def command(
    arguments: Sequence[str], world: World | None = None, state: StateStore | None = None
) -> int:
    """The command: print, and the exit status."""
    parser = argparse.ArgumentParser(prog="python -m drivers.amd.smi", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_board_option(parser, "AMD", tool="smi", pci=True)
    parser.add_argument("--trace", metavar="FILE",
                        help="write the register accesses of each GPU to FILE.ADDRESS")  # fmt: skip
    chosen = parser.parse_args(arguments)
    machine = LinuxWorld() if world is None else world
    try:
        places = state
        if chosen.board:
            front = in_front_of(chosen.board, "PCI")
            front.boot_once()
            machine, places = front.world, front.state
        lines = look(machine, places, chosen.trace, claims=world is None and not chosen.board)
    except DeviceError as error:
        sys.stderr.write(f"smi: {error}\n")
        return 1
    return print_text(as_json(lines) if chosen.json else as_text(lines))


if __name__ == "__main__":
    terminal.run(command)
