"""Which package of which distribution has the firmware; src: os-release(5)."""

from __future__ import annotations

from drivers.base.contracts import World
from drivers.firmware.manifest import Manifest
from drivers.machine.text import try_text

_OS_RELEASE = "/etc/os-release"


def package(world: World, manifest: Manifest) -> str:
    """What to install: this machine's package where its distribution is known, else all."""
    for name in distributions(world):
        if name in manifest.packages:
            return f"Install {manifest.packages[name]} ({name})"
    known = ", ".join(f"{one} ({name})" for name, one in manifest.packages.items())
    return f"Install your distribution's package: {known}"


def distributions(world: World) -> list[str]:
    """The distribution of this machine and those that it says it is like, closest first."""
    values: dict[str, str] = {}
    for line in try_text(world, _OS_RELEASE).splitlines():
        key, _, value = line.partition("=")
        values[key.strip()] = value.strip().strip("'\"").lower()
    return f"{values.get('ID', '')} {values.get('ID_LIKE', '')}".split()
