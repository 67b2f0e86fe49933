"""Opening a WebGPU device: adapter, device, queue, memory."""

from __future__ import annotations

from drivers.base.contracts import Firmware, World
from drivers.base.undo import Undo, run_all
from drivers.choice import Choice
from drivers.webgpu import abi
from drivers.webgpu.adapters import About, Adapters, choose
from drivers.webgpu.device import WebGpuDevice
from drivers.webgpu.facts import read_facts
from drivers.webgpu.link import Link
from drivers.webgpu.stream import Stream


def open_kind(world: World, choice: Choice, firmware: Firmware | None) -> WebGpuDevice:
    """The adapter that is chosen. Raises: NotFound, BadChoice, Unsupported."""
    adapters, adapter, about = choose(
        world, choice.index, choice.webgpu_device, choice.webgpu_library
    )
    return open_webgpu(f"WEBGPU:{choice.index}", world, adapters, adapter, about)


def open_webgpu(
    name: str, world: World, adapters: Adapters, adapter: int, about: About
) -> WebGpuDevice:
    """Open a device; when that fails halfway, what was done is undone."""
    with Undo() as undo:
        undo.add(adapters.close)
        facts = read_facts(adapters, adapter, about)
        if adapters.api.flavour.native:
            adapters.api.functions["wgpuSetLogLevel"](abi.LOG_OFF)
        link = Link(adapters, adapter, facts.features)
        undo.hand_over(link.close)
        stream = Stream(link)
        undo.hand_over(lambda: run_all([*stream.close_steps(), link.close]))
        if facts.times:
            stream.make_times()
        made = WebGpuDevice(name, world, facts, link, stream)
        made.builder.offer()
    return made
