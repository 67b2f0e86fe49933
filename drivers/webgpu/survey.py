"""WebGPU's libraries asked one by one, for `python -m drivers.probe`: each may end its process."""

from __future__ import annotations

from collections.abc import Iterator

from drivers.base.answers import Begun, Fact, Request, Step
from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.webgpu.adapters import NO_ADAPTER, About, Adapters, describe
from drivers.webgpu.libraries import load, places


def survey(world: World, request: Request) -> Iterator[Step]:
    """Every adapter of every library, and why a library has none. Nothing stays open."""
    for name in places(world):
        if name in request["skip"]:
            continue
        yield Begun(name)
        try:
            api = load(world, name)
            yield Begun(name, "asked")
            adapters = Adapters(api)
        except DeviceError as error:
            yield Fact({"library": name, "missing": error.message})
            continue
        found: list[About] = []
        errors: list[DeviceError] = []
        try:
            for handle in adapters.handles:
                describe(adapters, handle, found, errors)
        finally:
            adapters.close()
        yield from (Fact({"library": name, "title": one.title}) for one in found)
        yield from (Fact({"library": name, "missing": error.message}) for error in errors)
        if not found and not errors:
            yield Fact({"library": name, "missing": f"{name} {NO_ADAPTER}"})
