"""What prevents AMD_IFACE=PCI on each AMD GPU. It changes nothing and reads no register.

Which IP blocks a GPU has is known from the GPU alone, once it is claimed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from drivers.amd.chips import MANIFEST, chip_of_device
from drivers.amd.claim_chips import known
from drivers.amd.pci.reach import REACHES, judge, reported
from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.choice import Choice
from drivers.claim.claim import Plan, plan
from drivers.claim.record import Method
from drivers.claim.steps import DRIVERS, VFIO
from drivers.firmware import Manifest, chosen_manifest
from drivers.firmware.packages import package
from drivers.firmware.report import OK, UNKNOWN, ChipLine, survey
from drivers.machine.buses import AMD
from drivers.pci.functions import PciFunction, gpus

VRAM_BAR: Final = 0
_MIB_SHIFT: Final = 20


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing in the way, and what to do."""

    reason: str
    advice: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """One AMD GPU: `chip` is "" when it is not known; nothing in the way means it would open."""

    function: PciFunction
    name: str
    """"AMD:0", as AMD_IFACE=PCI counts them; "-" for one that is not known."""
    chip: str
    method: Method | None
    obstacles: tuple[Obstacle, ...]
    reach: str = ""
    """What it may reach of the host's memory, in words."""
    firmware: ChipLine | None = None

    @property
    def ready(self) -> bool:
        """Whether opening it would begin to boot it."""
        return not self.obstacles

    def facts(self) -> list[str]:
        """What it is, a line for each thing."""
        window = self.function.resources[VRAM_BAR].nbytes if self.function.resources else 0
        lines = [f"{window >> _MIB_SHIFT} MiB of its memory are visible through BAR 0"]
        if self.reach:
            lines.append(self.reach)
        if self.firmware is not None:
            there = sum(line.state in (OK, UNKNOWN) for line in self.firmware.files)
            lines.append(
                f"firmware: {there} of {len(self.firmware.files)} files are there and known"
            )
        return lines


def candidates(world: World, choice: Choice) -> list[Candidate]:
    """Every AMD GPU on PCI. Raises: MalformedInput where the bus cannot be read."""
    manifest = chosen_manifest(world, choice.firmware_manifest, MANIFEST)
    found, number = [], 0
    for function in gpus(world):
        if function.vendor != AMD:
            continue
        name = f"AMD:{number}" if known(function) else "-"
        number += known(function)
        found.append(_look(world, choice, manifest, function, name))
    return found


def _look(
    world: World, choice: Choice, manifest: Manifest, function: PciFunction, name: str
) -> Candidate:
    booted = chip_of_device(function.device)
    chip = booted.name if booted else ""
    try:
        made = plan(world, function.address, known, REACHES[choice.dma].method)
    except DeviceError as error:
        return Candidate(function, name, chip, None, (Obstacle(error.message, error.hint),))
    obstacles = [Obstacle(str(one), one.advice) for one in made.refusals]
    obstacles += _unprepared(world, choice, made)
    firmware = None
    if chip:
        (firmware,) = survey(world, manifest, [chip], choice.firmware_dir, choice.firmware_files)
        if not firmware.complete:
            obstacles.append(_lacking(world, manifest, firmware))
    reach = reported(choice.dma, made.method)
    return Candidate(function, name, chip, made.method, tuple(obstacles), reach, firmware)


def _unprepared(world: World, choice: Choice, made: Plan) -> Iterable[Obstacle]:
    """What a claim would stop at before its first step."""
    if made.refusals:
        return
    if made.method is Method.VFIO and not world.exists(f"{DRIVERS}/{VFIO}"):
        yield Obstacle(f"the driver {VFIO} is not loaded", "as root: modprobe vfio-pci")
    for step in made.steps:
        if not world.access(step.path, os.W_OK):
            yield Obstacle(
                f"{step.path} may not be written ({step.name})",
                "bind the GPU to vfio-pci beforehand, as root, or run as root",
            )
            return
    try:
        judge(world, REACHES[choice.dma], made.function, made.method)
    except DeviceError as error:
        yield Obstacle(error.message, error.hint)


def _lacking(world: World, manifest: Manifest, firmware: ChipLine) -> Obstacle:
    bad = [line for line in firmware.files if line.state not in (OK, UNKNOWN)]
    shown = ", ".join(f"{line.name} is {line.state}" for line in bad)
    return Obstacle(f"firmware: {shown}", package(world, manifest))
