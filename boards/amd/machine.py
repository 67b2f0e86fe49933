"""How boards are put together: `open_board("gfx1100")`."""

from __future__ import annotations

import gc
import itertools
import weakref
from dataclasses import replace

from boards.amd.chip import chip, names
from boards.amd.hardware import EngineFactory, Hardware, Options, reported
from boards.amd.kfd import sysfs
from boards.amd.kfd.rules import check_chip
from boards.amd.kfd.world import BoardWorld
from boards.amd.memory.space import Checks

__all__ = ["Checks", "Options", "another_process", "names", "open_board"]
_PIDS = itertools.count(1000)


_ALIVE: weakref.WeakSet[Hardware] = weakref.WeakSet()
_CARD_BYTES = 1 << 30
_MANY = 8
"""Boards alive at which a new one first frees those that are not referenced any more."""


def _next_pid() -> int:
    return next(_PIDS)


def open_board(
    name: str,
    *,
    gpus: int = 1,
    vram_bytes: int | None = None,
    options: Options | None = None,
    engines: EngineFactory | None = None,
) -> BoardWorld:
    """A machine with `gpus` GPUs of a kind, and a process in front of it.

    `vram_bytes` is sparse: only what is written takes memory. Where it is not given, a card has
    1 GiB and a processor's GPU what its firmware keeps for it. Raises: ValueError with the names
    there are, or for a chip that the kernel of the options does not have.
    """
    if name not in names():
        raise ValueError(f"no board {name!r}: there are {', '.join(names())}")
    chosen = replace(options or Options())
    chosen.vram_bytes = vram_bytes or chip(name).carveout_bytes or _CARD_BYTES
    if engines is not None:
        chosen.engines = engines
    check_chip(name, chip(name).gc, chosen.kernel)
    chips = [chip(name)] * gpus
    files = sysfs.files(chips, reported(chips[0], chosen))
    if len(_ALIVE) >= _MANY:
        gc.collect()
    hardware = Hardware(chips, chosen)
    _ALIVE.add(hardware)
    return BoardWorld(hardware, files, f"board {name}", _next_pid)


def another_process(world: BoardWorld) -> BoardWorld:
    """A second process in front of the same board."""
    hardware = world.hardware
    chips = [gpu.chip for gpu in hardware.gpus]
    options = hardware.options
    files = sysfs.files(chips, reported(chips[0], options))
    return BoardWorld(hardware, files, world.name, _next_pid)
