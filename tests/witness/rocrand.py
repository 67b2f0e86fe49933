"""rocRAND's own tests of its device code, as Debian builds them, in front of the KFD board.

Each program has a generator's kernels and compares what they make with the generator on the host,
or with its distribution. Ours is the choice of programs alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.witness import build, hip
from tests.witness.expected import Expected
from tests.witness.rocr import Result, settle
from tests.witness.roots import cache_folder, open_root
from tests.witness.session import Setup, run

CHIPS: Final = ("gfx1100",)
"""Of those that Debian builds it for, the one that was tried."""
GENERATORS: Final = {"philox4x32_10": 6, "xorwow": 6}
"""Each with how many of its tests run. Ranges of threefry and mrg take the board minutes."""
_PACKAGES: Final = ("librocrand1-tests", "libamdhip64-7")
_PLACE: Final = "usr/libexec/rocm/librocrand1-tests"
_LEFT_OUT: Final = "--gtest_filter=-*poisson*:*discrete*"
"""Tables of distributions take the board minutes."""
_PASSED: Final = re.compile(r"\[  PASSED  \] (\d+) tests\.")
_OWN: Final = (
    *hip.OWN,
    Expected(
        "violation", r"uninitialised VRAM: waves of queue \d+ reads VRAM buffer ",
        "A state is copied whole, with words that only a normal distribution sets.",
        "rocrand_philox4x32_10.h and its kin: boxmuller_float is set with boxmuller_float_state",
    ),
)  # fmt: skip
_LIMIT_S: Final = 900


@dataclass(frozen=True)
class Client:
    """What runs in front of one chip."""

    setup: Setup

    @property
    def words(self) -> str:
        """Versions, for the report."""
        version, runtime = map(self.setup.root.version, ("librocrand1", "libamdhip64-7"))
        return f"{self.setup.chip}: rocRAND {version}, HIP {runtime} of Debian {hip.SUITE}"


def prepare(chip: str, *, refresh: bool = False) -> Client:
    """Fetch and build what a chip needs. Raises: CannotRun."""
    root = open_root("rocrand", hip.SUITE, _PACKAGES, refresh=refresh)
    folder = cache_folder() / "build"
    folder.mkdir(parents=True, exist_ok=True)
    return Client(Setup(root, chip, build.shim(folder), cache_folder() / f"run-{chip}"))


def results(client: Client) -> Iterator[Result]:
    """One program after the other."""
    for name, wanted in GENERATORS.items():
        yield _one(client, name, wanted)


def _one(client: Client, name: str, wanted: int) -> Result:
    program: Path = client.setup.root.folder / _PLACE / f"test_rocrand_kernel_{name}"
    result = Result(name, run(client.setup, program, _LEFT_OUT, limit_s=_LIMIT_S))
    found = [int(match[1]) for line in result.run.lines if (match := _PASSED.match(line))]
    result.checks = sum(found)
    if found != [wanted]:
        result.wrong.append(f"passed {found}, not {wanted}")
    settle(result, _OWN)
    return result
