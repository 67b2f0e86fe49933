"""Opening a Metal device: two command queues, memory."""

from __future__ import annotations

from drivers.base.contracts import Firmware, World
from drivers.base.undo import Undo
from drivers.choice import Choice
from drivers.metal.api import Api, Owned
from drivers.metal.device import MetalDevice
from drivers.metal.facts import choose, read_facts
from drivers.metal.ring import MOST_BUFFERS, Ring


def open_kind(world: World, choice: Choice, firmware: Firmware | None) -> MetalDevice:
    """The device that is chosen; when that fails halfway, what was done is undone.

    Raises: NotFound, Unsupported.
    """
    api, device = choose(world, choice.index)
    name = f"METAL:{choice.index}"
    with Undo() as undo:
        undo.add(device.release)
        facts = read_facts(api, device.handle)
        compute = _ring(undo, api, device, f"{name} compute")
        copy = _ring(undo, api, device, f"{name} copy")
        return MetalDevice(name, world, api, device, facts, (compute, copy))


def _ring(undo: Undo, api: Api, device: Owned, name: str) -> Ring:
    make = api.send["newCommandQueueWithMaxCommandBufferCount:"]
    queue = Owned(api, make(device.handle, MOST_BUFFERS))
    undo.add(queue.release)
    return Ring(api, queue, name)
