"""Opening the made-up GPU."""

from __future__ import annotations

from drivers.base.contracts import Firmware, World
from drivers.choice import Choice
from drivers.machine.checks import Machine, Result
from drivers.world.linux import LinuxWorld
from tests.contract.null_vendor.device import NullDevice
from tests.contract.null_vendor.machine import NullMachine


def check_machine(machine: Machine) -> Result:
    """It is always there."""
    return Result("NULL", "", ready=True, reason="made up")


def open_kind(world: World, choice: Choice, firmware: Firmware | None) -> NullDevice:
    """The GPU that was chosen."""
    return open_null(world, choice.index)


def open_null(world: World | None = None, index: int = 0) -> NullDevice:
    """A made-up GPU of its own."""
    return NullDevice(f"NULL:{index}", world or LinuxWorld(), NullMachine())
