"""Opening the made-up GPU, and its registration."""

from __future__ import annotations

from drivers.base.contracts import World
from drivers.world.linux import LinuxWorld
from tests.contract.null_vendor.device import NullDevice
from tests.contract.null_vendor.machine import NullMachine


def open_null(world: World | None = None) -> NullDevice:
    """A made-up GPU of its own."""
    return NullDevice("NULL:0", world or LinuxWorld(), NullMachine())
