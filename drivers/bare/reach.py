"""UNBOUND_DMA: how a GPU is taken, and what it may then reach of the host's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drivers.base.contracts import World
from drivers.claim.record import Method
from drivers.pci.bars import check_enlarge
from drivers.pci.dma import Grade, check_physical
from drivers.pci.functions import PciFunction
from drivers.pci.session import check_grade


@dataclass(frozen=True, slots=True)
class Needs:
    """What a driver's opening takes of the machine."""

    vram_bar: int
    """The BAR that is made as large as VRAM."""
    huge_pages: int
    """Pages of 2 MiB that opening a GPU and its first copy take, with physical addresses."""


@dataclass(frozen=True, slots=True)
class Reach:
    """One way. `method` and `grade` are None where the machine decides."""

    method: Method | None
    grade: Grade | None
    words: str


REACHES: Final = {
    None: Reach(None, None, ""),
    "IOMMU": Reach(Method.VFIO, Grade.IOMMU, ""),
    "VRAM": Reach(None, Grade.NONE, "UNBOUND_DMA=vram: no DMA, everything lies in its own memory"),
    "PHYSICAL": Reach(
        Method.BARS, Grade.PHYSICAL, "UNBOUND_DMA=physical: DMA to addresses that no IOMMU guards"
    ),
}
"""By what UNBOUND_DMA says."""
_OF_MACHINE: Final = {
    Method.VFIO: "through vfio-pci: DMA where the IOMMU lets it",
    Method.BARS: "no IOMMU: no DMA, everything lies in its own memory (UNBOUND_DMA=vram)",
}


def judge(world: World, reach: Reach, needs: Needs, function: PciFunction, method: Method) -> None:
    """What would stop an opening after the first write to the machine stops it here.

    Raises: Unsupported for a grade that the machine does not have; OutOfMemory, Busy or Denied for
    physical memory that this user cannot have; MalformedInput, Denied for a BAR.
    """
    if reach.grade is not None:
        check_grade(function, method, reach.grade)
    if reach.grade is Grade.PHYSICAL:
        check_physical(world, needs.huge_pages)
    if method is Method.BARS:
        check_enlarge(world, function, needs.vram_bar)


def reported(dma: str | None, method: Method) -> str:
    """What a GPU that is taken so would reach."""
    return REACHES[dma].words or _OF_MACHINE[method]
