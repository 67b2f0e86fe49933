"""`python -m drivers.doctor [--json]`: this machine's state for GPU use. Exit status 0."""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from drivers.base.contracts import World
from drivers.doctor import Line, run
from drivers.doctor.checks import CHECKS
from drivers.machine.output import print_text
from drivers.world.linux import LinuxWorld

WIDTH_CHARS = 100


def main(
    arguments: Sequence[str],
    world: World | None = None,
    environ: Mapping[str, str] | None = None,
) -> str:
    """What the command prints."""
    parser = argparse.ArgumentParser(prog="python -m drivers.doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    chosen = parser.parse_args(arguments)
    lines = run(CHECKS, world or LinuxWorld(), os.environ if environ is None else environ)
    if chosen.json:
        return json.dumps({"lines": [asdict(line) for line in lines]}, indent=2)
    return "\n".join(part for line in lines for part in _shown(line))


def _shown(line: Line) -> list[str]:
    """Topic, state and text; the advice below, indented."""
    start = f"{line.topic:<12}{line.state:<9}"
    indent = " " * len(start)
    shown = textwrap.wrap(line.text, WIDTH_CHARS, initial_indent=start, subsequent_indent=indent)
    if line.advice:
        shown += textwrap.wrap(
            f"-> {line.advice}", WIDTH_CHARS, initial_indent=indent, subsequent_indent=indent
        )
    return shown


if __name__ == "__main__":
    sys.exit(print_text(main(sys.argv[1:])))
