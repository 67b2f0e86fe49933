"""`--board CHIP` of the command lines: they inspect a software GPU instead of this machine."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from drivers.bare.trace_player import Function
from drivers.base.contracts import Device, World
from drivers.base.errors import NotFound
from drivers.base.pci import StateStore
from drivers.kinds import BY_NAME

NOTE: Final = "a software GPU, never compared with silicon"
_SPOKEN_WITH_A_VOWEL: Final = "AEION"  # an NVIDIA board


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


def add_board_option(
    parser: argparse.ArgumentParser, kind: str = "", example: str = "gfx1100", *,
    tool: str = "probe", pci: bool = False,
) -> None:  # fmt: skip
    """The option itself; a command that knows one `kind` of GPU refuses boards of the others.

    `tool` is the command's name beside its kind, for the advice; with `pci` only boards fit that
    there are over PCI.
    """
    parser.add_argument(
        "--board", metavar="CHIP", help=f'a software GPU ("{example}")',
        type=lambda text: _fitting(text, kind, tool, pci=pci),
    )  # fmt: skip


def _fitting(chip: str, kind: str, tool: str, *, pci: bool) -> str:
    """The chip itself. Raises: ArgumentTypeError, which the parser prints."""
    from boards.front import over_pci, vendor_of

    try:
        other = vendor_of(chip).device
        if kind in ("", other):
            return over_pci(chip) if pci else chip
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}. See python -m boards") from error
    maker = BY_NAME[other].title.removesuffix(" GPU")
    article = "an" if maker[0] in _SPOKEN_WITH_A_VOWEL else "a"
    package = f"drivers.{other.lower()}"
    command = f"{package}.{tool}" if find_spec(f"{package}.{tool}") else f"{package}.probe"
    raise argparse.ArgumentTypeError(
        f"{chip} is {article} {maker} board: python -m {command} --board {chip}"
    )


def check_board(parser: argparse.ArgumentParser, chip: str | None, iface: str) -> None:
    """Ends the command where a chosen board does not have a chosen interface."""
    from boards.front import check_options

    try:
        if chip:
            check_options(chip, iface=iface)
    except ValueError as error:
        parser.error(str(error))


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
    """A board's GPU without a machine. Raises: ValueError with the boards there are."""
    from boards import front

    return front.powered_on(front.over_pci(chip), vram_bytes, any_firmware=any_firmware)
