"""The command line that generators share."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from generators.source import Generator, Source, Unreadable


def run(generator: Generator) -> int:
    """Prints one file, or the names of those that this generator makes."""
    parser = argparse.ArgumentParser(prog=f"python -m generators.{generator.name}")
    parser.add_argument("linux", type=Path, help="a kernel source tree: see `make references`")
    parser.add_argument("file", nargs="?", help="as this repository names it; none: the list")
    asked = parser.parse_args()
    if asked.file is None:
        sys.stdout.write("".join(f"{name}\n" for name in generator.outputs))
        return 0
    if asked.file not in generator.outputs:
        parser.error(f"{generator.name} makes {', '.join(generator.outputs)}")
    try:
        sys.stdout.write(generator.make(Source(asked.linux), asked.file))
    except Unreadable as error:
        print(error, file=sys.stderr)
        return 1
    return 0
