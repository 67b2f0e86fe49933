"""Taking and giving back as lists of writes to sysfs: the same list is printed or done.

Every write is to the function's own directory, to its driver's, or to the bus's probe file with
its address. Nothing is removed from the bus, and no other function is named.
Source: Linux Documentation/ABI/testing/sysfs-bus-pci (bind, unbind, driver_override, enable);
sysfs-devices-power (control).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drivers.base.contracts import World
from drivers.base.errors import Busy, DeviceError, DeviceGone
from drivers.claim.record import Method, Record, is_enabled
from drivers.machine.text import read_text
from drivers.pci import aspm
from drivers.pci.functions import PciFunction, look_at

DRIVERS = "/sys/bus/pci/drivers"
PROBE = "/sys/bus/pci/drivers_probe"
VFIO = "vfio-pci"
NOBODY = "none"
"""A driver_override that no driver has, so that a module loaded meanwhile does not bind."""
_CLEARED = "\n"
"""src: drivers/base/driver.c driver_set_override(): an empty line takes the override away."""


@dataclass(frozen=True, slots=True)
class Step:
    """One write, and what it is for."""

    name: str
    path: str
    text: str = ""
    at: int = 0
    data: bytes = b""
    """Bytes to write at an offset, in place of the text."""

    def __str__(self) -> str:
        if self.data:
            value = int.from_bytes(self.data, "little")
            return f"{self.name}: write {value:#06x} at {self.at:#x} of {self.path}"
        shown = self.text.strip() or "an empty line"
        return f"{self.name}: write {shown} to {self.path}"


def take(world: World, function: PciFunction, method: Method) -> list[Step]:
    """The writes that take a function as it is now."""
    override = VFIO if method is Method.VFIO else NOBODY
    at, now = aspm.place(world, function.address)
    steps: list[Step] = []
    if method is Method.VFIO and function.driver == VFIO:
        return steps
    if function.driver:
        steps.append(_unbind(function.address, function.driver))
    if function.override != override:
        name = f"let {VFIO} alone bind to it" if method is Method.VFIO else "let no driver bind"
        steps.append(Step(name, f"{function.folder}/driver_override", override))
    awake = [_link(function.address, "keep its link awake", at, now & ~aspm.BITS)]
    awake = awake if now & aspm.BITS else []
    if method is Method.VFIO:
        bound = Step(f"bind it to {VFIO}", PROBE, function.address)
        return [*steps, *awake, bound]
    if read_text(world, f"{function.folder}/power/control").strip() != "on":
        steps.append(Step("keep it awake", f"{function.folder}/power/control", "on"))
    if function.driver or not is_enabled(world, function):
        steps.append(Step("let it decode its BARs", f"{function.folder}/enable", "1"))
    return [*steps, *awake]


def give_back(world: World, now: PciFunction, record: Record) -> Iterator[Step]:
    """The writes from the function as it is `now` to what `record` remembers.

    Raises: Busy when a driver has it that neither we nor the record put there.
    """
    folder = now.folder
    ours = VFIO if record.method is Method.VFIO else ""
    bound = now.driver
    if bound not in ("", record.driver):
        if bound != ours:
            raise Busy(
                f"{now.address} is bound to {bound}; it was bound to {record.driver or 'nothing'}",
                hint="another program bound it: unbind it, then python -m drivers.doctor --restore",
            )
        yield _unbind(now.address, bound)
        bound = ""
    at, link = aspm.place(world, now.address) if record.aspm and not bound else (0, 0)
    if at and link & aspm.BITS != record.aspm:
        value = link & ~aspm.BITS | record.aspm
        yield _link(now.address, "let its link sleep as before", at, value)
    idle = record.method is Method.BARS and not bound and not record.enabled
    if idle and is_enabled(world, now):
        yield Step("let it decode nothing", f"{folder}/enable", "0")
    if record.power and read_text(world, f"{folder}/power/control").strip() != record.power:
        yield Step("let it sleep as before", f"{folder}/power/control", record.power)
    if now.override != record.override:
        name = f"let {record.override or 'any driver'} bind to it"
        yield Step(name, f"{folder}/driver_override", record.override or _CLEARED)
    if record.driver and bound != record.driver:
        path = f"{DRIVERS}/{record.driver}/bind"
        yield Step(f"bind it to {record.driver}", path, now.address)


def _link(address: str, name: str, at: int, value: int) -> Step:
    """Write Link Control while no driver has the function."""
    return Step(name, aspm.config_path(address), at=at, data=value.to_bytes(2, "little"))


def _unbind(address: str, driver: str) -> Step:
    return Step(f"take it from {driver}", f"{DRIVERS}/{driver}/unbind", address)


def run(world: World, steps: Sequence[Step]) -> None:
    """Do the writes, in order. Raises: DeviceError that names the step."""
    for number, step in enumerate(steps, 1):
        try:
            _write(world, step)
        except DeviceError as error:
            error.named(f"step {number} of {len(steps)}, {step.name}")
            if isinstance(error, DeviceGone):  # bind and unbind say ENODEV for whatever fails
                error.advised("see the kernel log (dmesg) for why the kernel does not do it")
            raise error from error.__cause__


def _write(world: World, step: Step) -> None:
    if not step.data:
        world.write(step.path, step.text.encode())
        return
    fd = world.open(step.path, os.O_RDWR)
    try:
        world.pwrite(fd, step.data, step.at)
    finally:
        world.close(fd)


def verify(world: World, address: str, driver: str) -> PciFunction:
    """The function must be bound to `driver` ("" for none). Raises: Busy."""
    now = look_at(world, address)
    if now.driver != driver:
        raise Busy(
            f"{address} is bound to {now.driver or 'nothing'}, not to {driver or 'nothing'}",
            hint="see the kernel log (dmesg) for why",
        )
    return now
