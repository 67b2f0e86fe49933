"""`--board CHIP` of the command lines: they inspect a software GPU instead of this machine."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from drivers.bare.trace_player import Function
from drivers.base.contracts import Device, World
from drivers.base.errors import NotFound
from drivers.base.pci import StateStore

NOTE: Final = "a software GPU, never compared with silicon"


@dataclass(frozen=True, slots=True)
class Front:
    """A process in front of a board."""

    world: World
    state: StateStore | None
    environ: Mapping[str, str]
    """What a user would have set there."""
    violations: Callable[[], list[str]]
    """What silicon would have let pass, so far."""
    boot_once: Callable[[], None]
    """Open the GPU and leave it again."""
    open: Callable[[], Device]
    """Open the GPU."""


def add_board_option(parser: argparse.ArgumentParser) -> None:
    """The option itself."""
    parser.add_argument("--board", metavar="CHIP", help='a software GPU ("gfx1100")')


def in_front_of(chip: str, iface: str, trace: str = "") -> Front:
    """A board over an interface, "" for its first one. Raises: NotFound with the boards there are.

    `trace` is the file for every register access over PCI.
    """
    from boards.front import Setup, power_on

    try:
        front: Any = power_on(Setup(chip, iface=iface, trace=trace))  # no type in common with us
    except ValueError as error:
        raise NotFound(str(error), hint="See python -m boards") from error
    board = front.board
    return Front(
        front.world, front.state, front.environ,
        violations=lambda: [str(violation) for violation in board.violations],
        boot_once=lambda: front.open().close(),
        open=front.open,
    )  # fmt: skip


def device_of(chip: str) -> str:
    """The kind of device that a board's GPU is. Raises: NotFound with the boards there are."""
    from boards.front import Setup, environ_of

    try:
        return environ_of(Setup(chip))["DEV"]
    except ValueError as error:
        raise NotFound(str(error), hint="See python -m boards") from error


def powered_on(chip: str, vram_bytes: int, *, any_firmware: bool) -> Function:
    """A board's GPU without a machine. Raises: ValueError for an unknown chip."""
    from boards import front

    return front.powered_on(chip, vram_bytes, any_firmware=any_firmware)
