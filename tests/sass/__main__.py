"""Print an architecture's SASS table, measured with nvdisasm (`make nv` installs it).

python -m tests.sass sm_86 > boards/nv/isa/tables/sm_86.json
"""

from __future__ import annotations

import argparse
import sys

from tests.sass.make import make
from unbound import terminal


def main() -> None:
    """Print the table; what the plan does not explain goes to stderr."""
    parser = argparse.ArgumentParser(prog="python -m tests.sass", description=__doc__)
    parser.add_argument("arch", help="as sm_86; tests/data has a recording of it")
    parser.add_argument("opcode", nargs="*", help="only these, in hex")
    asked = parser.parse_args()
    made, complaints = make(asked.arch, {int(one, 16) for one in asked.opcode})
    sys.stdout.write(made)
    sys.stderr.write("".join(f"{line}\n" for line in complaints))


if __name__ == "__main__":
    terminal.run(lambda _: main())
