"""The board's QMD field tables, from the class headers that NVIDIA publishes.

A line is `NAME low:high`, and `NAME low:high +stride` for a field that is there several times.
Input: NVIDIA/open-gpu-doc, classes/compute/cl*qmd.h, whose macros are MW(high:low).
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from pathlib import Path

from unbound import terminal

_FIELD = re.compile(r"#define NV\w+?_QMDV(\d\d_\d\d)_(\w+)(\(i\))?\s+MW\((.+)\)\s*$")
_PLAIN = re.compile(r"(\d+):(\d+)")
_REPEATED = re.compile(r"\((\d+)\+\(i\)\*(\d+)\):\((\d+)\+\(i\)\*(\d+)\)")


class Unreadable(Exception):
    """The header does not say what is asked of it."""


def table(text: str, version: str) -> list[str]:
    """Lines of one version's fields, in the header's order. Raises: Unreadable."""
    lines = []
    for line in text.splitlines():
        found = _FIELD.match(line)
        if found is None or found.group(1) != version:
            continue
        name, bits = found.group(2), found.group(4)
        plain, repeated = _PLAIN.fullmatch(bits), _REPEATED.fullmatch(bits)
        if plain is not None:
            high, low = plain.groups()
            lines.append(f"{name} {low}:{high}")
        elif repeated is not None:
            high, stride, low, again = repeated.groups()
            if stride != again:
                raise Unreadable(f"{name}: two strides in {bits}")
            lines.append(f"{name} {low}:{high} +{stride}")
        else:
            raise Unreadable(f"{name}: not understood: {bits}")
    if not lines:
        raise Unreadable(f"no field of QMD {version} here")
    return lines


def make(header: Path, version: str) -> str:
    """The text of one table. Raises: Unreadable, OSError."""
    content = header.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    head = [
        f"# made by: python -m generators.board_qmd {header.name} {version}",
        f"# src: NVIDIA/open-gpu-doc, classes/compute/{header.name}, sha256 {digest}",
    ]
    return "\n".join([*head, *table(content.decode("latin-1"), version)]) + "\n"


def main() -> int:
    """Prints one table."""
    parser = argparse.ArgumentParser(
        prog="python -m generators.board_qmd", description="Print a QMD field table."
    )
    parser.add_argument("header", type=Path, help="cl*qmd.h of open-gpu-doc")
    parser.add_argument("version", help="as 03_00")
    asked = parser.parse_args()
    try:
        sys.stdout.write(make(asked.header, asked.version))
    except (Unreadable, OSError) as error:
        print(f"{asked.header}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    terminal.run(lambda _: main())
