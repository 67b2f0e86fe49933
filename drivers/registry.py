"""Opening a device by its name: `drivers.kinds` says what there is."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import cast

from drivers.base import forks
from drivers.base.contracts import Device, Firmware, World
from drivers.base.errors import Unsupported
from drivers.base.imports import check_imports
from drivers.base.pci import StateStore
from drivers.choice import choose, split_name
from drivers.kinds import BEST_FIRST, BY_NAME, named
from drivers.timeline.attach import attach


@functools.cache
def this_machine() -> World:
    """The machine this process runs on: one world, since the kernel's GPU interfaces know one."""
    from drivers.world.linux import LinuxWorld

    return LinuxWorld()


def open_device(
    name: str,
    *,
    world: World | None = None,
    environ: Mapping[str, str] | None = None,
    firmware: Firmware | None = None,
    state: StateStore | None = None,
) -> Device:
    """Open `name`: "CPU", "AMD:1".

    `state` is for kinds that claim GPUs, and where they keep locks and records instead of this
    user's own place.

    Raises: NotFound for an unknown name; BadChoice for a wrong environment variable; Unsupported
    for a kind that has no driver yet; and whatever the device's own opening raises.
    """
    choice = choose(os.environ if environ is None else environ, name)
    kind = BY_NAME[split_name(name)[0]]
    if not kind.opens:
        written = ", ".join(known.name for known in BEST_FIRST if known.opens)
        raise Unsupported(
            f"{kind.name} ({kind.title}): no driver is written yet; it will need {kind.needs}",
            hint=f"Use {written}; python -m drivers.probe lists every kind",
        )
    check_imports()
    with forks.postponed(), ExitStack() as undo:
        machine = this_machine() if world is None else world
        more = {} if state is None else {"state": state}
        device = cast(Device, named(kind.opens)(machine, choice, firmware, **more))
        if choice.timeline is not None:
            undo.callback(device.close)
            attach(device, machine, choice.timeline)
            undo.pop_all()
        return device
