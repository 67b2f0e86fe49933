"""Metal's devices, for `python -m drivers.probe`: its frameworks may end the process."""

from __future__ import annotations

from collections.abc import Iterator

from drivers.base.answers import Begun, Fact, Request, Step
from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.metal import abi
from drivers.metal.api import Api
from drivers.metal.facts import devices, read_facts


def survey(world: World, request: Request) -> Iterator[Step]:
    """Every device with its families, and why one cannot be used. Nothing is created."""
    if abi.METAL in request["skip"]:
        return
    yield Begun(abi.METAL)
    api = Api(world)
    yield Begun(abi.METAL, "asked")
    for one in devices(api):
        try:
            facts = read_facts(api, one.handle)
            title = f"{facts.title} ({', '.join(sorted(facts.families))})"
            yield Fact({"title": title, "memory_bytes": facts.limits.memory_bytes})
        except DeviceError as error:
            yield Fact({"missing": error.message})
        finally:
            one.release()
