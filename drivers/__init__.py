"""Devices of this machine: `drivers.open("CPU")`. Importing this imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unbound import terminal

if TYPE_CHECKING:
    from drivers.base.contracts import Device, Firmware, World

__all__ = ["open"]

terminal.begin(__name__)


def open(
    name: str | None = None,
    *,
    world: World | None = None,
    environ: Mapping[str, str] | None = None,
    firmware: Firmware | None = None,
) -> Device:
    """Open a device by name (`drivers.registry`), or the default one (`drivers.default`)."""
    if name is None:
        from drivers.default import open_default

        return open_default(world=world, environ=environ, firmware=firmware)
    from drivers.registry import open_device

    return open_device(name, world=world, environ=environ, firmware=firmware)
