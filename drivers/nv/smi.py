"""`python -m drivers.nv.smi [--json]`: memory, state, temperature and use of NVIDIA GPUs.

Each GPU is opened to ask it, and closed again; nothing is run on it or changed. Exit status 0.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.board_option import add_board_option, in_front_of
from drivers.machine.output import print_text
from drivers.nv.nvk.iface import open_nvk
from drivers.nv.tools.look import Gpu, look
from drivers.nv.tools.status import Status, read
from drivers.world.linux import LinuxWorld
from unbound import terminal

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Line:
    """One GPU: its readings, and why there are none."""

    gpu: Gpu
    status: Status = field(default_factory=Status)
    problem: str = ""


def lines_of(world: World) -> tuple[list[Line], str]:
    """(every GPU of NVIDIA's kernel driver, what is wrong with the driver)."""
    found = look(world)
    if found.problem is not None:
        return [], str(found.problem)
    lines = []
    for index, gpu in enumerate(found.gpus):
        try:
            iface = open_nvk(world, index, briefly=True)
        except DeviceError as error:
            lines.append(Line(gpu, problem=error.message))
            continue
        try:
            lines.append(Line(gpu, read(iface)))
        finally:
            iface.close()
    return lines, "" if found.version else found.control.reason


def _shown(status: Status) -> str:
    parts = []
    if status.memory_bytes is not None and status.memory_free_bytes is not None:
        free, total = status.memory_free_bytes / _GIB, status.memory_bytes / _GIB
        parts.append(f"memory {free:.1f} of {total:.1f} GiB free")
    if status.performance_state is not None:
        parts.append(f"state {status.performance_state}")
    parts += [f"{place} {value} C" for place, value in status.temperatures_c.items()]
    if status.graphics_percent is not None:
        parts.append(f"graphics {status.graphics_percent:.0f} % busy")
    if status.memory_percent is not None:
        parts.append(f"memory {status.memory_percent:.0f} % busy")
    return ", ".join(parts) or "nothing"


def as_text(lines: Sequence[Line], problem: str) -> str:
    """A line for each GPU, and below it what is not reported."""
    if not lines:
        return problem or "NVIDIA's kernel driver has no GPU"
    out = []
    for line in lines:
        gpu = line.gpu
        what = line.problem or _shown(line.status)
        out.append(f"{gpu.product or 'GPU'} at {gpu.address}: {what}")
        out += [f"    {lack}" for lack in line.status.lacks]
    return "\n".join(out)


def as_json(lines: Sequence[Line], problem: str) -> str:
    """One object; `gpus` has one for each GPU."""
    gpus = [
        {
            "address": line.gpu.address,
            "product": line.gpu.product,
            "problem": line.problem or None,
            "readings": line.status.known(),
            "lacks": line.status.lacks,
        }
        for line in lines
    ]
    return json.dumps({"problem": problem or None, "gpus": gpus}, indent=2)


def command(arguments: Sequence[str], world: World | None = None) -> int:
    """The command: print, and the exit status."""
    parser = argparse.ArgumentParser(prog="python -m drivers.nv.smi", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_board_option(parser, "NV", "ga102", tool="smi")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.board:
            world = in_front_of(chosen.board, "NVK").world
        lines, problem = lines_of(LinuxWorld() if world is None else world)
    except DeviceError as error:
        sys.stderr.write(f"smi: {error}\n")
        return 1
    return print_text((as_json if chosen.json else as_text)(lines, problem))


if __name__ == "__main__":
    terminal.run(command)
