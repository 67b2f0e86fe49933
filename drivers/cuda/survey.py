"""CUDA's devices, for `python -m drivers.probe`: libcuda may end the process that loads it."""

from __future__ import annotations

from collections.abc import Iterator

from drivers.base.answers import Begun, Fact, Request, Step
from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.cuda import abi
from drivers.cuda.api import Api
from drivers.cuda.facts import count_of, read_facts

_START_S = 60.0
"""Without a daemon that keeps them ready, GPUs start when the library does."""


def survey(world: World, request: Request) -> Iterator[Step]:
    """Every device, and why one cannot be used. No context is made."""
    if abi.LIBRARY in request["skip"]:
        return
    yield Begun(abi.LIBRARY)
    api = Api(world, "CUDA")
    yield Begun(abi.LIBRARY, "asked", _START_S)
    api.start()
    for index in range(count_of(api)):
        try:
            facts = read_facts(api, index)
            size = facts.limits.memory_bytes
            yield Fact({"title": f"{facts.title} ({facts.arch})", "memory_bytes": size})
        except DeviceError as error:
            yield Fact({"missing": error.message})
