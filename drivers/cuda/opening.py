"""Opening a CUDA device: its primary context, two streams, memory."""

from __future__ import annotations

from functools import partial
from typing import Final

from drivers.base.contracts import Firmware, World
from drivers.base.undo import Undo, whole
from drivers.choice import Choice
from drivers.cuda.api import Api
from drivers.cuda.context import Context
from drivers.cuda.device import CudaDevice
from drivers.cuda.events import Events
from drivers.cuda.facts import read_facts
from drivers.cuda.ring import Ring

COMPILERS: Final = ("NVRTC", "PTX")


def open_kind(world: World, choice: Choice, firmware: Firmware | None) -> CudaDevice:
    """The device that is chosen; when that fails halfway, what was done is undone.

    Raises: NotFound, Unsupported, OutOfMemory.
    """
    return whole(partial(_open, world, choice), CudaDevice.close)


def _open(world: World, choice: Choice) -> CudaDevice:
    name = f"CUDA:{choice.index}"
    api = Api(world, name)
    api.start()
    facts = read_facts(api, choice.index, rounds=choice.rounds)
    compilers = tuple(sorted(COMPILERS, key=lambda one: one != choice.compiler))
    with Undo() as undo:
        context = Context(api, facts.ordinal)
        undo.add(context.release)
        context.push()
        try:
            with Undo() as inner:
                rings = _ring(inner, api, f"{name} compute"), _ring(inner, api, f"{name} copy")
                events = Events(api, rings[0])
                inner.add(events.close)
                device = CudaDevice(name, api, facts, context, rings, events, compilers)
            undo.hand_over(device.close)
        finally:
            context.pop()
    return device


def _ring(undo: Undo, api: Api, name: str) -> Ring:
    made = Ring(api, name)
    undo.add(made.close)
    return made
