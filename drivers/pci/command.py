"""The COMMAND register: whether a function answers at its BARs, and whether it may do DMA.

Source: PCI Express Base Specification 4.0, 7.5.1.1.3; include/uapi/linux/pci_regs.h.
"""

from __future__ import annotations

from typing import Protocol

from drivers.base.errors import DeviceGone, Unsupported, during
from drivers.pci.config import COMMAND, COMMAND_MASTER, COMMAND_MEMORY

_BYTES, _NOBODY = 2, 0xFFFF


class ConfigSpace(Protocol):
    """Numbers in the config space of one function; `address` says which."""

    address: str

    def config_read(self, off: int, nbytes: int) -> int:
        """1, 2 or 4 bytes, aligned."""

    def config_write(self, off: int, nbytes: int, value: int) -> None:
        """1, 2 or 4 bytes, aligned."""


def set_command(space: ConfigSpace, *, master: bool, anyway: bool = False) -> None:
    """Let the function answer at its BARs, and let it do DMA or not; a read-back proves both.

    What it reads already is written only with `anyway`.

    Raises: DeviceGone when it reads all ones, Unsupported when a bit does not stay as written.
    """
    with during(f"{space.address}: COMMAND"):
        _set_command(space, master=master, anyway=anyway)


def _set_command(space: ConfigSpace, *, master: bool, anyway: bool) -> None:
    now = read_command(space)
    wanted = now & ~COMMAND_MASTER | COMMAND_MEMORY | (COMMAND_MASTER if master else 0)
    if now == wanted and not anyway:
        return
    space.config_write(COMMAND, _BYTES, wanted)
    now = read_command(space)
    if (now ^ wanted) & (COMMAND_MASTER | COMMAND_MEMORY):
        raise Unsupported(
            f"{now:#06x} is read after {wanted:#06x} was written",
            hint="the function does not take its command register: see the kernel log (dmesg)",
        )


def read_command(space: ConfigSpace) -> int:
    """What it holds. Raises: DeviceGone when it reads all ones."""
    value = space.config_read(COMMAND, _BYTES)
    if value == _NOBODY:
        raise DeviceGone(
            "all ones are read",
            hint="the function left the bus or sleeps: see the kernel log (dmesg)",
        )
    return value
