"""How boards are put together: `open_nv_board("ga102")`."""

from __future__ import annotations

import itertools

from boards.nv.chip import CHIPS, chip
from boards.nv.hardware import NvHardware, NvOptions
from boards.nv.world import NvWorld

__all__ = ["NAMES", "another_nv_process", "open_nv_board"]

NAMES = tuple(CHIPS)
_PIDS = itertools.count(1000)


def open_nv_board(name: str, *, gpus: int = 1, options: NvOptions | None = None) -> NvWorld:
    """A machine with `gpus` GPUs of a kind, and a process in front of it. Raises: ValueError."""
    hardware = NvHardware([chip(name)] * gpus, options or NvOptions())
    return NvWorld(hardware, f"board {name}", next(_PIDS))


def another_nv_process(world: NvWorld) -> NvWorld:
    """A second process in front of the same board."""
    return NvWorld(world.hardware, world.name, next(_PIDS))
