"""What prevents each GPU of a vendor from being booted. Changes nothing, reads no register.

Which blocks a GPU has is known from the GPU alone, once it is claimed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from drivers.bare.reach import REACHES, Needs, judge, reported
from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.choice import Choice
from drivers.claim.claim import Plan, plan
from drivers.claim.record import Method
from drivers.claim.steps import DRIVERS, VFIO
from drivers.firmware import Manifest, chosen_manifest
from drivers.firmware.packages import package
from drivers.firmware.report import OK, UNKNOWN, ChipLine, survey
from drivers.pci.functions import PciFunction, gpus

_MIB_SHIFT: Final = 20


@dataclass(frozen=True, slots=True)
class Booted:
    """Which GPUs a driver boots, and what they need."""

    kind: str
    """As names of devices begin: "NV" of "NV:0"."""
    vendor: int
    """Of PCI."""
    known: Callable[[PciFunction], bool]
    """Whether a function is a GPU that may be claimed and booted."""
    chip_of: Callable[[PciFunction], str]
    """Its chip as firmware manifests name it, "" where it is not known."""
    manifest: str
    """The `Kind.firmware` of the driver."""
    needs: Needs


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing in the way, and what to do."""

    reason: str
    advice: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """One GPU: `chip` is "" when it is not known; nothing in the way means it would open."""

    function: PciFunction
    name: str
    """"NV:0", as the driver over PCI counts them; "-" for one that is not known."""
    chip: str
    method: Method | None
    obstacles: tuple[Obstacle, ...]
    reach: str = ""
    """What it may reach of the host's memory, in words."""
    firmware: ChipLine | None = None
    vram_bar: int = 0

    @property
    def ready(self) -> bool:
        """Whether opening it would begin to boot it."""
        return not self.obstacles

    def facts(self) -> list[str]:
        """What it is, a line for each thing."""
        bars, bar = self.function.resources, self.vram_bar
        window = bars[bar].nbytes if bars else 0
        lines = [f"{window >> _MIB_SHIFT} MiB of its memory are visible through BAR {bar}"]
        if self.reach:
            lines.append(self.reach)
        if self.firmware is not None:
            there = sum(line.state in (OK, UNKNOWN) for line in self.firmware.files)
            lines.append(
                f"firmware: {there} of {len(self.firmware.files)} files are there and known"
            )
        return lines


def candidates(world: World, choice: Choice, booted: Booted) -> list[Candidate]:
    """Every GPU of a vendor on PCI. Raises: MalformedInput where the bus cannot be read."""
    manifest = chosen_manifest(world, choice.firmware_manifest, booted.manifest)
    found, number = [], 0
    for function in gpus(world):
        if function.vendor != booted.vendor:
            continue
        known = booted.known(function)
        name = f"{booted.kind}:{number}" if known else "-"
        number += known
        found.append(_inspect(world, choice, booted, manifest, function, name))
    return found


def _inspect(
    world: World, choice: Choice, booted: Booted, manifest: Manifest, function: PciFunction,
    name: str,
) -> Candidate:  # fmt: skip
    chip, bar = booted.chip_of(function), booted.needs.vram_bar
    try:
        made = plan(world, function.address, booted.known, REACHES[choice.dma].method)
    except DeviceError as error:
        obstacle = Obstacle(error.message, error.hint)
        return Candidate(function, name, chip, None, (obstacle,), vram_bar=bar)
    obstacles = [Obstacle(str(one), one.advice) for one in made.refusals]
    obstacles += _unprepared(world, choice, booted.needs, made)
    firmware = None
    if chip:
        (firmware,) = survey(world, manifest, [chip], choice.firmware_dir, choice.firmware_files)
        if not firmware.complete:
            obstacles.append(_lacking(world, manifest, firmware))
    reach = reported(choice.dma, made.method)
    return Candidate(function, name, chip, made.method, tuple(obstacles), reach, firmware, bar)


def _unprepared(world: World, choice: Choice, needs: Needs, made: Plan) -> Iterable[Obstacle]:
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
        judge(world, REACHES[choice.dma], needs, made.function, made.method)
    except DeviceError as error:
        yield Obstacle(error.message, error.hint)


def _lacking(world: World, manifest: Manifest, firmware: ChipLine) -> Obstacle:
    bad = [line for line in firmware.files if line.state not in (OK, UNKNOWN)]
    shown = ", ".join(f"{line.name} is {line.state}" for line in bad)
    return Obstacle(f"firmware: {shown}", package(world, manifest))
