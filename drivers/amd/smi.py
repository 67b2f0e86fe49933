"""`python -m drivers.amd.smi [--json] [--watch [SECONDS]]`: what AMD GPUs do, and for whom.

Clocks, power, temperatures, memory, and the processes that use each GPU. A GPU that amdgpu drives
is read through sysfs. An unbound one is read itself, if it was booted over PCI and left again;
while a program uses it, only that program can ask. Exit status 1 without an AMD GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from drivers.amd.chips import CHIPS, chip_of_device
from drivers.amd.claim_chips import known
from drivers.amd.kfd.nodes import GpuNode
from drivers.amd.pci import gmc, ownership, smu, smu_metrics
from drivers.amd.pci.ownership import Found
from drivers.amd.tools import sensors
from drivers.amd.tools.bare import FREE, looked_at
from drivers.amd.tools.look import look_briefly
from drivers.amd.tools.processes import gpu_users
from drivers.amd.tools.readings import Readings
from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.base.pci import StateStore
from drivers.board_option import add_board_option, in_front_of
from drivers.machine.buses import AMD, Unread
from drivers.machine.output import print_lines, print_text
from drivers.machine.processes import GpuProcess, Users
from drivers.machine.smi import (
    NONE,
    add_smi_options,
    columns,
    gib,
    notes,
    processes_lines,
    watched,
    whole,
)
from drivers.pci.functions import PciFunction, listing
from drivers.world.linux import LinuxWorld
from unbound import terminal

_KERNEL_DRIVER: Final = "amdgpu"
NO_GPU: Final = f"no AMD GPU is on PCI: see `lspci -d {AMD:04x}:`"
HEAD: Final = ("GPU", "chip", "busy %", "gfx/mem MHz", "power W", "edge/hot/mem C", "fan rpm",
               "memory GiB", "driver")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """One GPU: its readings, what it does not report, and who uses it."""

    function: PciFunction
    readings: Readings
    lacks: tuple[str, ...]
    chip: str = ""
    processes: tuple[GpuProcess, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """Every GPU, and what is not known."""

    lines: tuple[Line, ...]
    unread: tuple[Unread, ...] = ()
    """Functions on PCI that may be GPUs, and cannot be read."""
    unseen: int = 0
    """Processes that this user may not inspect."""


def report(
    world: World, state: StateStore | None, trace: str | None = None, *, claims: bool = False
) -> Report:
    """Every AMD GPU on PCI, and the processes that use each.

    Those without driver are asked where `state` says where claims are, or, at this user's own
    place, with `claims`. `trace` is a file for the register accesses; each GPU's name ends in its
    PCI address.
    """
    functions, unread = listing(world)
    mine = [function for function in functions if function.vendor == AMD]
    nodes, claims = _nodes(world), claims or state is not None
    lines = [
        _driven(world, function, nodes)
        if function.driver == _KERNEL_DRIVER
        else _bare(world, state, function, trace, claims=claims)
        for function in mine
    ]
    driven = [one.address for one in mine if one.driver == _KERNEL_DRIVER]
    users = gpu_users(world, driven, nodes) if driven else Users()
    found = (replace(line, processes=tuple(users.of(line.function.address))) for line in lines)
    return Report(tuple(found), tuple(unread), users.unseen)


def look(
    world: World, state: StateStore | None, trace: str | None = None, *, claims: bool = False
) -> list[Line]:
    """The lines of a report."""
    return list(report(world, state, trace, claims=claims).lines)


def _nodes(world: World) -> list[GpuNode]:
    """KFD's nodes, those of processors' GPUs with the machine's memory; [] without KFD."""
    return [gpu.node for gpu in look_briefly(world).gpus]


def _driven(world: World, function: PciFunction, nodes: Sequence[GpuNode]) -> Line:
    """A GPU of amdgpu's."""
    node = next((one for one in nodes if one.pci_address == function.address), None)
    chip = CHIPS.get(node.gfx_target_version) if node is not None else None
    integrated = chip is not None and chip.integrated
    kfd = node if integrated else None
    readings, lacks = sensors.read(world, function.folder, kfd, integrated=integrated)
    return Line(function, readings, tuple(lacks), chip.name if chip is not None else "")


def _bare(
    world: World, state: StateStore | None, function: PciFunction, trace: str | None, *,
    claims: bool,
) -> Line:  # fmt: skip
    """A GPU that amdgpu does not drive."""
    booted = chip_of_device(function.device)
    name = booted.name if booted is not None else ""
    if not (claims and known(function) and function.driver in FREE):
        lack = f"{function.driver or 'no driver'} has it, and reports nothing here"
        return Line(function, Readings(), (lack,), name)
    try:
        return replace(_ask(world, state, function, trace), chip=name)
    except DeviceError as error:
        return Line(function, Readings(), (str(error),), name)


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


def _pair(one: float | None, other: float | None) -> str:
    return f"{whole(one)}/{whole(other)}"


def _row(line: Line) -> tuple[str, ...]:
    read, function = line.readings, line.function
    return (
        function.address,
        line.chip or f"{function.vendor:04x}:{function.device:04x}",
        whole(read.gfx_percent),
        _pair(read.gfx_mhz, read.memory_mhz),
        _pair(read.power_w, read.power_limit_w),
        f"{_pair(read.edge_c, read.hotspot_c)}/{whole(read.memory_c)}",
        whole(read.fan_rpm),
        f"{gib(read.memory_used_bytes)}/{gib(read.memory_bytes)}",
        function.driver or NONE,
    )


def as_text(found: Report) -> str:
    """A table of GPUs, what each does not report below it, and a table of processes."""
    out = columns([HEAD, *map(_row, found.lines)]) if found.lines else [NO_GPU]
    for line in found.lines:
        for lack in line.lacks:
            out += notes(line.function.address, lack)
    for other in found.unread:
        out += notes("PCI", other.reason, other.advice)
    if any(line.function.driver == _KERNEL_DRIVER for line in found.lines):
        held = [(line.function.address, line.processes) for line in found.lines]
        out += ["", *processes_lines(held, found.unseen)]
    return "\n".join(out)


def as_json(found: Report) -> str:
    """A list with an object for each GPU."""
    gpus: list[dict[str, object]] = [
        {
            "address": line.function.address,
            "chip": line.chip or None,
            "driver": line.function.driver or None,
            "readings": line.readings.known(),
            "lacks": list(line.lacks),
            "processes": [one.facts() for one in line.processes],
            "unseen_processes": found.unseen,
        }
        for line in found.lines
    ]
    gpus += [
        {"address": one.address, "readings": {}, "lacks": [one.reason], "advice": one.advice}
        for one in found.unread
    ]
    return json.dumps(gpus, indent=2)


def command(
    arguments: Sequence[str], world: World | None = None, state: StateStore | None = None
) -> int:
    """The command: print, and the exit status."""
    parser = argparse.ArgumentParser(prog="python -m drivers.amd.smi", description=__doc__)
    add_smi_options(parser)
    add_board_option(parser, "AMD", tool="smi", pci=True)
    parser.add_argument("--trace", metavar="FILE",
                        help="write the register accesses of each GPU to FILE.ADDRESS")  # fmt: skip
    chosen = parser.parse_args(arguments)
    machine = LinuxWorld() if world is None else world
    found: list[Report] = []
    claims = world is None and not chosen.board

    def shown() -> str:
        found[:] = [report(machine, places, chosen.trace, claims=claims)]
        return (as_json if chosen.json else as_text)(found[0])

    try:
        places = state
        if chosen.board:
            front = in_front_of(chosen.board, "PCI")
            front.boot_once()
            machine, places = front.world, front.state
        if chosen.watch is not None:
            return print_lines(watched(machine, shown, chosen.watch))
        text = shown()
    except DeviceError as error:
        sys.stderr.write(f"smi: {error}\n")
        return 1
    return print_text(text) or int(not found[0].lines)


if __name__ == "__main__":
    terminal.run(command)
