"""Opening an AMD GPU through KFD."""

from __future__ import annotations

from typing import Final

from drivers.amd.apertures import read_apertures
from drivers.amd.bo import Gpu
from drivers.amd.clock import read_clock
from drivers.amd.device import AmdDevice
from drivers.amd.events import Events
from drivers.amd.look import Gpu as Seen
from drivers.amd.look import look
from drivers.amd.session import enable_runtime, open_session
from drivers.base.contracts import World
from drivers.base.errors import NotFound, Unsupported
from drivers.base.undo import Undo
from drivers.choice import Choice

COMPILERS: Final = ("LLVM", "HIP")


def open_amd(world: World, choice: Choice) -> AmdDevice:
    """Open the GPU that `choice` names; when that fails halfway, what was done is undone.

    Raises: NotFound, Denied, Unsupported, OutOfMemory, and what the kernel refuses.
    """
    if choice.iface not in (None, "KFD"):
        raise Unsupported(
            f"AMD_IFACE={choice.iface}: no driver is written yet for it", hint="Use AMD_IFACE=KFD"
        )
    seen = _chosen(world, choice.index)
    chip, area, node = seen.chip, seen.area, seen.node
    if chip is None or area is None:
        raise Unsupported(f"KFD node {node.index} is not supported")
    compilers = tuple(sorted(COMPILERS, key=lambda name: name != choice.compiler))
    session = open_session(world)
    with Undo() as undo:
        gpu = Gpu(session, node.gpu_id, session.acquire(node))
        enable_runtime(session)
        events = Events.open(gpu)
        undo.add(events.close)
        clock = read_clock(gpu)
        aql = chip.family.queue == "AQL" if choice.aql is None else choice.aql
        apertures = read_apertures(gpu) if aql else None
        name = f"AMD:{choice.index}"
        device = AmdDevice(name, node, chip, area, events, clock, apertures, compilers)
        device.open_queues()
        undo.hand_over(device.close)
        device.timeline = device.new_signal()
    return device


def _chosen(world: World, index: int) -> Seen:
    """The GPU with this number among those that are supported. Raises: what is in the way."""
    found = look(world)
    if found.problem is not None:
        raise found.problem
    supported = [gpu for gpu in found.gpus if gpu.supported]
    if index < len(supported):
        return supported[index]
    for gpu in found.gpus:
        if gpu.problems:
            raise gpu.problems[0]
    raise NotFound(
        f"there is no AMD:{index}: KFD manages {len(supported)} supported GPUs",
        hint="python -m drivers.amd.probe shows them",
    )
