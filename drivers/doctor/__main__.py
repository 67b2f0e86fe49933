"""`python -m drivers.doctor [--json]`: this machine's state for GPU use. Exit status 0.

`--restore` gives GPUs back to the kernel drivers that they had before a program of ours took them
and was killed; nothing else is changed. Exit status 1 when one could not be given back.
"""

from __future__ import annotations

import argparse
import json
import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.base.pci import StateStore
from drivers.claim.place import state_for
from drivers.claim.record import Record
from drivers.claim.restoring import restore_all
from drivers.doctor import OK, WARN, Line, run
from drivers.doctor.checks import CHECKS
from drivers.kinds import BEST_FIRST, named
from drivers.machine.output import print_text, width_chars
from drivers.world.linux import LinuxWorld
from unbound import terminal


def main(
    arguments: Sequence[str],
    world: World | None = None,
    environ: Mapping[str, str] | None = None,
    state: StateStore | None = None,
) -> tuple[str, int]:
    """What the command prints, and its exit status. Raises: DeviceError."""
    parser = argparse.ArgumentParser(prog="python -m drivers.doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--restore", action="store_true", help="give GPUs back to their drivers")
    chosen = parser.parse_args(arguments)
    machine, settings = world or LinuxWorld(), os.environ if environ is None else environ
    if chosen.restore:
        with state_for(settings, state) as places:
            return restored(machine, places, as_json=chosen.json)
    lines = run(CHECKS, machine, settings)
    return _report(lines, chosen.json), 0


def _report(lines: Sequence[Line], as_json: bool) -> str:
    if as_json:
        return json.dumps({"lines": [asdict(line) for line in lines]}, indent=2)
    return "\n".join(part for line in lines for part in _shown(line))


def _shown(line: Line) -> list[str]:
    """Topic, state and text; the advice below, indented."""
    start = f"{line.topic:<12}{line.state:<9}"
    indent = " " * len(start)
    shown = textwrap.wrap(line.text, width_chars(), initial_indent=start, subsequent_indent=indent)
    if line.advice:
        shown += textwrap.wrap(
            f"-> {line.advice}", width_chars(), initial_indent=indent, subsequent_indent=indent
        )
    return shown


def _recover(world: World, record: Record) -> None:
    """What each vendor does to its own before it goes back. Raises: DeviceError."""
    for kind in BEST_FIRST:
        if kind.recovers:
            named(kind.recovers)(world, record)


def restored(world: World, state: StateStore, *, as_json: bool = False) -> tuple[str, int]:
    """Give everything back; one line for each GPU, and the exit status."""
    outcomes = restore_all(world, state, _recover)
    lines = [
        Line(outcome.address, OK if outcome.ok else WARN, outcome.text, outcome.advice)
        for outcome in outcomes
    ]
    if not lines:
        lines = [Line("restore", OK, f"nothing to give back ({state.path} has no record)")]
    return _report(lines, as_json), int(not all(outcome.ok for outcome in outcomes))


def command(arguments: Sequence[str]) -> int:
    """Run the command; its exit status."""
    try:
        text, status = main(arguments)
    except DeviceError as error:
        text, status = str(error), 1
    return print_text(text) or status


if __name__ == "__main__":
    terminal.run(command)
