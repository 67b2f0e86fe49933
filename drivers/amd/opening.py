"""Opening an AMD GPU, through KFD, over PCI or over USB."""

from __future__ import annotations

import atexit
import weakref
from contextlib import nullcontext
from functools import partial
from typing import Final

from drivers.amd.device import AmdDevice
from drivers.amd.iface import Iface
from drivers.amd.kfd.iface import open_kfd
from drivers.amd.limits import HANG_S
from drivers.base.contracts import Firmware, World
from drivers.base.errors import during
from drivers.base.exits import end_quietly
from drivers.base.pci import StateStore
from drivers.base.undo import Undo, run_all, whole
from drivers.choice import Choice

CALIBRATIONS: Final = 4
COMPILERS: Final = ("LLVM", "HIP")


def open_kind(
    world: World, choice: Choice, firmware: Firmware | None, *, state: StateStore | None = None
) -> AmdDevice:
    """As `drivers.kinds` names it; an AMD GPU brings its own command processor."""
    return open_amd(world, choice, state=state)


def open_amd(world: World, choice: Choice, *, state: StateStore | None = None) -> AmdDevice:
    """Open the GPU that `choice` names; when that fails halfway, what was done is undone.

    Ctrl-C waits for the next step of a boot, or for the end, and undoes what was done, too.

    `state` is where locks and records of claimed GPUs are; without, this user's own place.
    Raises: NotFound, Denied, Unsupported, OutOfMemory, and what the interface refuses.
    """
    return whole(partial(_open, world, choice, state), AmdDevice.close)


def _open(world: World, choice: Choice, state: StateStore | None) -> AmdDevice:
    compilers = tuple(sorted(COMPILERS, key=lambda name: name != choice.compiler))
    with Undo() as undo:
        iface = _open_iface(world, choice, state)
        undo.add(iface.close)
        aql = iface.chip.family.queue == "AQL" if choice.aql is None else choice.aql
        apertures = iface.apertures() if aql else None
        hang_s = HANG_S if choice.hang_s is None else choice.hang_s
        device = AmdDevice(f"AMD:{choice.index}", iface, apertures, compilers, hang_s)
        # over USB writes go out later, when the step that made them is over
        with during("open queues") if choice.iface == "USB" else nullcontext():
            device.open_queues()
        undo.hand_over(device.close)
        if not iface.calibrated:
            _calibrate(device)
    if choice.iface in ("PCI", "USB"):
        _close_at_exit(device)
    return device


_bare: weakref.WeakSet[AmdDevice] = weakref.WeakSet()


def _close_at_exit(device: AmdDevice) -> None:
    """Close an unbound GPU, then give it back.

    The exit handler that gives it back was registered earlier: it runs later.
    """
    _bare.add(device)
    atexit.unregister(_close_all)
    atexit.register(_close_all)


def _close_all() -> None:
    end_quietly()
    run_all([device.close for device in _bare])


def _calibrate(device: AmdDevice) -> None:
    """Let the compute queue write its time, half way between two readings of the host's clock.

    The tightest of a few pairs of readings counts: the first work of a queue takes longer.
    """
    now_s = device.iface.world.monotonic_s
    signal = device.new_signal()
    looks: list[tuple[float, float, int]] = []
    for _ in range(CALIBRATIONS):
        before_s = now_s()
        device.compute_queue().timestamp(signal).submit()
        device.synchronize()
        after_s = now_s()
        looks.append((after_s - before_s, (before_s + after_s) / 2, signal.ticks))
    _, middle_s, ticks = min(looks)
    device.iface.clock.calibrate(ticks, middle_s)
    signal.close()


def _open_iface(world: World, choice: Choice, state: StateStore | None) -> Iface:
    if choice.iface in (None, "KFD"):
        return open_kfd(world, choice.index, choice.visible)
    if choice.iface == "PCI":
        from drivers.amd.pci.opening import open_pci

        return open_pci(world, choice, state)
    from drivers.amd.usb.opening import open_usb

    return open_usb(world, choice, state)
