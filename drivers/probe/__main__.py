"""`python -m drivers.probe [--json]`: the default device and why; every kind, usable or why not.

Of devices behind a vendor's library "usable" means that a kernel was built and run on one, in a
child process; what worked is remembered in the cache. Exit status 0.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence

from drivers.base.contracts import World
from drivers.base.errors import BadChoice
from drivers.default import Default, explain
from drivers.machine.output import print_text
from drivers.machine.packages import installed
from drivers.probe import Machine, around_of, run
from drivers.probe.kinds import CHECKS
from drivers.probe.report import as_json, as_table
from drivers.probe.trials import Trials
from drivers.world import child
from drivers.world.linux import LinuxWorld
from unbound import terminal


def main(
    arguments: Sequence[str],
    world: World | None = None,
    environ: Mapping[str, str] | None = None,
) -> str:
    """What the command prints."""
    parser = argparse.ArgumentParser(prog="python -m drivers.probe", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    chosen = parser.parse_args(arguments)
    settings = os.environ if environ is None else environ
    machine = made_up(world, settings) if world is not None else this_machine(settings)
    default, results = default_of(machine), run(CHECKS, machine)
    return (as_json if chosen.json else as_table)(results, default, around_of(machine))


def made_up(world: World, environ: Mapping[str, str]) -> Machine:
    """A machine whose libraries do not reach this one's: they are asked in this process."""
    return Machine(world, environ, installed)


def this_machine(environ: Mapping[str, str]) -> Machine:
    """This machine: vendors' libraries are asked, and kernels tried, in processes of their own."""
    world = LinuxWorld()
    trial = Trials(world, environ, installed, child.ask)
    return Machine(world, environ, installed, child.ask, trial)


def default_of(machine: Machine) -> Default:
    """The default device; where the environment is wrong, the error in its place."""
    try:
        return explain(machine.world, machine.environ)
    except BadChoice as error:
        return Default("-", str(error))


def command(arguments: Sequence[str]) -> int:
    """The command: print, and the exit status."""
    return print_text(main(arguments))


if __name__ == "__main__":
    terminal.run(command)
