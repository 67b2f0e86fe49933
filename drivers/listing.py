"""Which devices can be opened here, by inspecting files: nothing is opened, booted or loaded.

A kind of device that is known by its library alone (OpenCL, CUDA, Metal, WebGPU) is not in it: to
ask such a library is to run it in this process. `python -m drivers.probe` asks those, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from drivers.base.contracts import World
from drivers.base.errors import BadChoice, DeviceError
from drivers.base.offer import Offer
from drivers.choice import choose
from drivers.kinds import BEST_FIRST, Kind, Way, named


def openable(world: World, environ: Mapping[str, str]) -> list[str]:
    """Names of devices, the best first; the CPU is the last.

    A kind that cannot be inspected is left out, and no other for its sake.
    """
    found = (name for kind in BEST_FIRST for name in _of_kind(kind, world, environ))
    return list(dict.fromkeys(found))


def _of_kind(kind: Kind, world: World, environ: Mapping[str, str]) -> list[str]:
    """Of the first interface that has any, as `drivers.open` takes them in that order."""
    iface = None
    with suppress(BadChoice):  # it is reported where a device is opened
        iface = choose(environ, kind.name).iface
    for way in kind.ways:
        if iface not in (None, way.name):
            continue
        with suppress(DeviceError):  # the probe reports it
            names = list(_of_way(kind, way, world, environ))
            if names:
                return names
    return []


def _of_way(kind: Kind, way: Way, world: World, environ: Mapping[str, str]) -> Iterator[str]:
    if way.lists:
        yield from (Offer(kind.name, index, "").name for index in named(way.lists)(world, environ))
    elif way.offers:
        seen = named(way.offers)(world, environ)
        yield from (one.name for one in seen if isinstance(one, Offer))
