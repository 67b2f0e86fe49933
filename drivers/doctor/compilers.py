"""The doctor's rows about compilers: which are installed, and what the others are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from drivers.base.contracts import World
from drivers.kinds import BEST_FIRST
from drivers.machine.lines import MISSING, OK, Line
from drivers.machine.packages import installed
from drivers.machine.system import clang_description, find_library

TOPIC: Final = "compilers"


def compilers(world: World, environ: Mapping[str, str]) -> Iterator[Line]:
    """Each compiler that a kind of device can have. None is loaded or run."""
    needed = {one.name: one for kind in BEST_FIRST[::-1] for one in kind.builders}
    missing = []
    for name, one in needed.items():
        version = installed(one.package) if one.package else None
        paths = [find_library(world, environ, file) for file in one.files]
        places = [clang_description(world, environ) if one.program else None, *paths]
        places += [f"the Python package {one.package} {version}"] if version else []
        found = next(filter(None, places), None)
        if found:
            yield Line(TOPIC, OK, f"{name}: {found}")
        else:
            missing.append(f"{name} ({one.purpose}: {one.install})")
    if missing:
        names = ", ".join(one.partition(" (")[0] for one in missing)
        yield Line(TOPIC, MISSING, f"{names}: not installed", "; ".join(missing))
