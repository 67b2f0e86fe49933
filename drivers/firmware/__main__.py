"""`python -m drivers.firmware [CHIP ...]`: which firmware GPUs need, what is there, what is wrong.

Only GPUs that are driven without a kernel driver need it from here. Exit status 1 when a chip that
was named lacks a file. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.choice import choose
from drivers.firmware.manifest import chosen_manifest
from drivers.firmware.report import shown, survey
from drivers.kinds import BEST_FIRST
from drivers.machine.output import print_text
from drivers.world.linux import LinuxWorld
from unbound import terminal


def main(
    arguments: Sequence[str],
    world: World | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[str, int]:
    """What the command prints, and its exit status."""
    choice = choose(os.environ if environ is None else environ)
    machine = world or LinuxWorld()
    kinds = [kind for kind in BEST_FIRST if kind.firmware]
    kind = next((kind for kind in kinds if kind.name == choice.kind), kinds[0])
    manifest = chosen_manifest(machine, choice.firmware_manifest, kind.firmware)
    parser = argparse.ArgumentParser(prog="python -m drivers.firmware", description=__doc__)
    parser.add_argument("chips", nargs="*", metavar="CHIP", help=f"of {', '.join(manifest.chips)}")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    options = parser.parse_args(arguments)
    unknown = [arch for arch in options.chips if arch not in manifest.chips]
    if unknown:
        parser.error(f"{unknown[0]!r} is not one of {', '.join(manifest.chips)}")
    archs = options.chips or list(manifest.chips)
    chips = survey(machine, manifest, archs, choice.firmware_dir, choice.firmware_files)
    lacking = bool(options.chips) and not all(chip.complete for chip in chips)
    if options.json:
        facts = [asdict(chip) | {"complete": chip.complete} for chip in chips]
        return json.dumps({"chips": facts, "licence": manifest.licence}, indent=2), int(lacking)
    return shown(machine, manifest, chips, choice.firmware_dir), int(lacking)


def command(arguments: Sequence[str]) -> int:
    """The command line: what `main` says is printed, or the error in its place."""
    try:
        text, status = main(arguments)
    except DeviceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return print_text(text) or status


if __name__ == "__main__":
    terminal.run(command)
