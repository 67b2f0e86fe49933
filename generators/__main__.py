"""Compares every data file with what its generator makes of a kernel source, or writes them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from generators.registry import GENERATORS, differs
from generators.source import Source, Unreadable
from unbound import terminal

ROOT = Path(__file__).parents[1]


def main() -> int:
    """0: all files are what the generators make; 1: some are not, or could not be made."""
    parser = argparse.ArgumentParser(prog="python -m generators", description=__doc__)
    parser.add_argument("linux", type=Path, help="a kernel source tree: see `make references`")
    parser.add_argument("file", nargs="*", help="as the repository names it; none: every file")
    parser.add_argument("--write", action="store_true", help="write what differs")
    asked = parser.parse_args()
    outputs = {output: one for one in GENERATORS for output in one.outputs}
    unknown = [name for name in asked.file if name not in outputs]
    if unknown:
        parser.error(f"no generator makes {', '.join(unknown)}")
    different = 0
    for output in asked.file or outputs:
        try:
            made = outputs[output].make(Source(asked.linux), output)
        except Unreadable as error:
            print(f"{output}: {error}", file=sys.stderr)
            different += 1
            continue
        path = ROOT / output
        if path.exists() and not differs(path.read_text("ascii"), made):
            continue
        if asked.write:
            path.write_text(made, "ascii")
            print(f"{output}: written")
        else:
            print(f"{output}: differs: {outputs[output].command(output)}")
            different += 1
    return 1 if different else 0


if __name__ == "__main__":
    terminal.run(lambda _: main())
