"""`python -m drivers.probe [--json]`: the default device and why; every kind, usable or why not.

Exit status 0.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from drivers.base.contracts import World
from drivers.base.errors import BadChoice
from drivers.default import Default, explain
from drivers.machine.output import print_text
from drivers.probe import Machine, run
from drivers.probe.kinds import CHECKS
from drivers.probe.report import as_json, as_table
from drivers.world.linux import LinuxWorld


def installed(package: str) -> str | None:
    """Version of an installed Python package, None when it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def main(
    arguments: Sequence[str],
    world: World | None = None,
    environ: Mapping[str, str] | None = None,
) -> str:
    """What the command prints."""
    parser = argparse.ArgumentParser(prog="python -m drivers.probe", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    chosen = parser.parse_args(arguments)
    machine = Machine(world or LinuxWorld(), os.environ if environ is None else environ, installed)
    default, results = default_of(machine), run(CHECKS, machine)
    return (as_json if chosen.json else as_table)(results, default)


def default_of(machine: Machine) -> Default:
    """The default device; where the environment is wrong, the error in its place."""
    try:
        return explain(machine.world, machine.environ)
    except BadChoice as error:
        return Default("-", str(error))


if __name__ == "__main__":
    sys.exit(print_text(main(sys.argv[1:])))
