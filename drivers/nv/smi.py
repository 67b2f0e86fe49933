"""`python -m drivers.nv.smi [--json] [--watch [SECONDS]]`: what NVIDIA GPUs do, and for whom.

Memory, performance state, temperatures, use, and the processes that have each GPU's node open. Each
GPU is opened to ask it, and closed again; nothing is run on it or changed. Exit status 1 without an
NVIDIA GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.board_option import add_board_option, in_front_of
from drivers.machine.output import print_lines, print_text
from drivers.machine.processes import GpuProcess, Users, holders
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
from drivers.nv.nvk.iface import open_nvk
from drivers.nv.tools.look import Gpu, Look, Unmanaged, look
from drivers.nv.tools.status import Status, read
from drivers.world.linux import LinuxWorld
from unbound import terminal

HEAD: Final = ("GPU", "name", "state", "busy %", "mem %", "C", "memory GiB", "node")
NO_GPU: Final = "NVIDIA's kernel driver has no GPU"


@dataclass(frozen=True, slots=True)
class Line:
    """One GPU: its readings, and why there are none."""

    gpu: Gpu
    status: Status = field(default_factory=Status)
    problem: str = ""
    advice: str = ""
    processes: tuple[GpuProcess, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """Every GPU, and what is not known."""

    lines: tuple[Line, ...]
    problem: str
    """What is wrong with the kernel driver."""
    unmanaged: tuple[Unmanaged, ...] = ()
    unseen: int = 0
    """Processes that this user may not inspect."""


def report(world: World) -> Report:
    """Every GPU of NVIDIA's kernel driver, and why others are not."""
    found = look(world)
    problem = str(found.problem) if found.problem is not None else ""
    if not problem and not found.version:
        problem = found.control.reason
    users = holders(world, {gpu.node.path: gpu.address for gpu in found.gpus})
    lines = (_one(world, found, gpu, users) for gpu in found.gpus)
    return Report(tuple(lines), problem, found.unmanaged, users.unseen)


def _one(world: World, found: Look, gpu: Gpu, users: Users) -> Line:
    line = Line(gpu, processes=tuple(users.of(gpu.address)))
    if found.problem is not None:
        return replace(line, problem=found.problem.message, advice=found.problem.hint)
    try:
        iface = open_nvk(world, 0, minor=gpu.minor, briefly=True)
    except DeviceError as error:
        return replace(line, problem=error.message, advice=error.hint)
    try:
        return replace(line, status=read(iface))
    finally:
        iface.close()


def lines_of(world: World) -> tuple[list[Line], str]:
    """(every GPU of NVIDIA's kernel driver, what is wrong with the driver)."""
    found = report(world)
    return list(found.lines), found.problem


def _row(line: Line) -> tuple[str, ...]:
    status, gpu = line.status, line.gpu
    total, free = status.memory_bytes, status.memory_free_bytes
    used = total - free if total is not None and free is not None else None
    hot = "/".join(map(str, status.temperatures_c.values()))
    return (
        gpu.address,
        gpu.product or NONE,
        status.performance_state or NONE,
        whole(status.graphics_percent),
        whole(status.memory_percent),
        hot or NONE,
        f"{gib(used)}/{gib(total)}",
        gpu.node.path,
    )


def as_text(found: Report) -> str:
    """A table of GPUs, below it what is not reported, and a table of processes."""
    out = columns([HEAD, *map(_row, found.lines)]) if found.lines else [found.problem or NO_GPU]
    for line in found.lines:
        if line.problem:
            out += notes(line.gpu.address, line.problem, line.advice)
        for lack in line.status.lacks:
            out += notes(line.gpu.address, lack)
    for other in found.unmanaged:
        out += notes(NONE, other.reason, other.advice)
    if found.lines:
        held = [(line.gpu.address, line.processes) for line in found.lines]
        out += ["", *processes_lines(held, found.unseen)]
    return "\n".join(out)


def as_json(found: Report) -> str:
    """One object; `gpus` has one for each GPU."""
    gpus = [
        {
            "address": line.gpu.address,
            "product": line.gpu.product,
            "problem": line.problem or None,
            "advice": line.advice or None,
            "readings": line.status.known(),
            "lacks": line.status.lacks,
            "processes": [one.facts() for one in line.processes],
            "unseen_processes": found.unseen,
        }
        for line in found.lines
    ]
    others = [
        {"address": one.address, "reason": one.reason, "advice": one.advice}
        for one in found.unmanaged
    ]
    whole_report = {"problem": found.problem or None, "gpus": gpus, "unmanaged": others}
    return json.dumps(whole_report, indent=2)


def command(arguments: Sequence[str], world: World | None = None) -> int:
    """The command: print, and the exit status."""
    parser = argparse.ArgumentParser(prog="python -m drivers.nv.smi", description=__doc__)
    add_smi_options(parser)
    add_board_option(parser, "NV", "ga102", tool="smi")
    chosen = parser.parse_args(arguments)
    found: list[Report] = []

    def shown() -> str:
        found[:] = [report(machine)]
        return (as_json if chosen.json else as_text)(found[0])

    try:
        machine = in_front_of(chosen.board, "NVK").world if chosen.board else world or LinuxWorld()
        if chosen.watch is not None:
            return print_lines(watched(machine, shown, chosen.watch))
        text = shown()
    except DeviceError as error:
        sys.stderr.write(f"smi: {error}\n")
        return 1
    return print_text(text) or int(not found[0].lines)


if __name__ == "__main__":
    terminal.run(command)
