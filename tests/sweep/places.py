"""Where the sweep goes: chips and grades of DMA, and a short life of a GPU there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from boards.machine.pci.panel import Kind
from boards.machine.pci.world import PciWorld
from tests.reliability.pci_scene import logged, machine

CHIPS: Final = ("gfx1100", "gfx1201", "gfx942")
GRADES: Final = ("IOMMU", "none")
KINDS: Final = (Kind.TIMEOUT, Kind.ONES, Kind.STUCK, Kind.GARBAGE, Kind.GONE)


@dataclass(frozen=True, slots=True)
class Plan:
    """The accesses of a life, "read", "write" or "call"; `closing`: those before it closes."""

    log: list[str]
    closing: int

    def ats(self, kind: Kind) -> list[int]:
        """The accesses, counted from 1, that can go wrong so: a write has no garbage to give."""
        return [
            at
            for at, access in enumerate(self.log, 1)
            if kind is not Kind.GARBAGE or access == "read"
        ]


@dataclass(frozen=True, slots=True)
class Place:
    """A machine with one GPU, whose kernel driver has it at first."""

    chip: str
    grade: str

    def __str__(self) -> str:
        return f"{self.chip} {self.grade}"

    def board(self) -> PciWorld:
        """A new machine."""
        return machine(self.chip, iommu=self.grade == "IOMMU")

    def plan(self) -> Plan:
        """What there is to try: of two lives the shorter, for a busy host polls more often."""
        lives = (logged(self.chip, iommu=self.grade == "IOMMU") for _ in range(2))
        return min((Plan(*life) for life in lives), key=lambda plan: len(plan.log))


PLACES: Final = tuple(Place(chip, grade) for chip in CHIPS for grade in GRADES)
