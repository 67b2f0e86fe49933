"""Opening an NVIDIA GPU, over NVIDIA's kernel driver."""

from __future__ import annotations

from functools import partial
from typing import Final

from drivers.base.contracts import Firmware, World
from drivers.base.errors import Unsupported
from drivers.base.undo import Undo, whole
from drivers.choice import Choice
from drivers.nv.device import HANG_S, NvDevice
from drivers.nv.nvk.iface import open_nvk

COMPILERS: Final = ("NVRTC", "PTX")


def open_kind(world: World, choice: Choice, firmware: Firmware | None) -> NvDevice:
    """As `drivers.kinds` names it; the GPU brings its own firmware."""
    return open_nv(world, choice)


def open_nv(world: World, choice: Choice) -> NvDevice:
    """Open the GPU that `choice` names; when that fails halfway, what was done is undone.

    Raises: NotFound, Denied, Unsupported, OutOfMemory, and what the kernel driver refuses.
    """
    return whole(partial(_open, world, choice), NvDevice.close)


def _open(world: World, choice: Choice) -> NvDevice:
    if choice.iface not in (None, "NVK"):
        raise Unsupported(
            f"NV_IFACE={choice.iface}: no driver is written yet for it", hint="Use NV_IFACE=NVK"
        )
    compilers = tuple(sorted(COMPILERS, key=lambda name: name != choice.compiler))
    with Undo() as undo:
        iface = open_nvk(world, choice.index, choice.visible)
        undo.add(iface.close)
        hang_s = HANG_S if choice.hang_s is None else choice.hang_s
        device = NvDevice(f"NV:{choice.index}", iface, compilers, hang_s, rounds=choice.rounds)
        device.open_queues()
        undo.hand_over(device.close)
    return device
