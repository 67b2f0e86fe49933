"""How boards are put together: `open_qcom_board("a630")`."""

from __future__ import annotations

import itertools

from boards.qcom.chips import CHIPS, chip
from boards.qcom.hardware import AdrenoHardware, AdrenoOptions
from boards.qcom.world import QcomWorld

__all__ = ["NAMES", "another_qcom_process", "open_qcom_board"]

NAMES = tuple(CHIPS)
_PIDS = itertools.count(1000)


def open_qcom_board(name: str, *, options: AdrenoOptions | None = None) -> QcomWorld:
    """A machine with a GPU of a kind, and a process in front of it. Raises: ValueError."""
    hardware = AdrenoHardware([chip(name)], options or AdrenoOptions())
    return QcomWorld(hardware, f"board {name}", next(_PIDS))


def another_qcom_process(world: QcomWorld) -> QcomWorld:
    """A second process in front of the same board."""
    return QcomWorld(world.hardware, world.name, next(_PIDS))
