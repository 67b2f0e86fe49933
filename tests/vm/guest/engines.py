"""The smoke test of every engine, on the GPU that the environment names."""

from __future__ import annotations

import os
import sys

from compilers.amd_smoke import firmware
from drivers.amd.smoke import smoke
from drivers.amd.smoke_report import smoke_lines
from drivers.choice import choose
from drivers.world.linux import LinuxWorld


def main() -> int:
    """How many tests did not pass."""
    outcomes = list(smoke(LinuxWorld(), choose(os.environ, "AMD:0"), firmware))
    for line in smoke_lines("AMD:0", outcomes):
        print(line)
    passed = sum(outcome.ok for outcome in outcomes)
    print(f"{passed} of {len(outcomes)} tests passed")
    return len(outcomes) - passed if outcomes else 1


if __name__ == "__main__":
    sys.exit(main())
