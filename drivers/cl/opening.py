"""Opening an OpenCL device: context, two queues, memory."""

from __future__ import annotations

from drivers.base.contracts import Firmware, World
from drivers.base.undo import Undo
from drivers.choice import Choice
from drivers.cl import abi
from drivers.cl.api import Api, Words
from drivers.cl.building import Builder
from drivers.cl.device import ClDevice
from drivers.cl.facts import Facts, read_facts
from drivers.cl.memory import RawMemory, best_kind
from drivers.cl.platforms import choose
from drivers.cl.ring import Ring


def open_kind(world: World, choice: Choice, firmware: Firmware | None) -> ClDevice:
    """The device that is chosen. Raises: NotFound, BadChoice, Unsupported."""
    found = choose(world, choice.index, choice.cl_device)
    facts = read_facts(found, lanes=choice.cl_lanes)
    return open_cl(f"CL:{choice.index}", world, facts, choice.cl_memory)


def open_cl(name: str, world: World, facts: Facts, memory: str | None = None) -> ClDevice:
    """Open a device; when that fails halfway, what was done is undone.

    `memory`: FINE, COARSE or BUFFER, of those it has; None: the best.
    """
    api, device = facts.found.api, facts.found.device
    devices = Words([device])
    with Undo() as undo:
        context = api.make("clCreateContext", 0, 1, devices.at, 0, 0)
        undo.add(lambda: api.do("clReleaseContext", context))
        rings = (
            _ring(undo, api, facts, context, f"{name} compute"),
            _ring(undo, api, facts, context, f"{name} copy"),
        )
        builder = Builder(api, context, device, facts.arch, facts.options)
        raw = RawMemory(api, context, memory or best_kind(facts.svm), facts.max_alloc_bytes)
        made = ClDevice(
            name, world, facts, builder, raw, rings,
            lambda: api.do("clReleaseContext", context),
        )  # fmt: skip
        builder.offer()
    return made


def _ring(undo: Undo, api: Api, facts: Facts, context: int, name: str) -> Ring:
    handle = api.make(
        "clCreateCommandQueue", context, facts.found.device, abi.QUEUE_PROFILING_ENABLE
    )
    undo.add(lambda: api.do("clReleaseCommandQueue", handle))
    return Ring(api, handle, name)
