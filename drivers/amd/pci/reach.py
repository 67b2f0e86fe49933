"""AMD_DMA: how a GPU is taken, and what it may then reach of the host's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drivers.claim.record import Method
from drivers.pci.dma import Grade


@dataclass(frozen=True, slots=True)
class Reach:
    """One way. `method` and `grade` are None where the machine decides."""

    method: Method | None
    grade: Grade | None
    words: str


REACHES: Final = {
    None: Reach(None, None, ""),
    "IOMMU": Reach(Method.VFIO, Grade.IOMMU, ""),
    "VRAM": Reach(None, Grade.NONE, "AMD_DMA=vram: no DMA, everything lies in its own memory"),
    "PHYSICAL": Reach(
        Method.BARS, Grade.PHYSICAL, "AMD_DMA=physical: DMA to addresses that no IOMMU guards"
    ),
}
"""By what AMD_DMA says."""
_OF_MACHINE: Final = {
    Method.VFIO: "through vfio-pci: DMA where the IOMMU lets it",
    Method.BARS: "no IOMMU: no DMA, everything lies in its own memory (AMD_DMA=vram)",
}


def told(dma: str | None, method: Method) -> str:
    """What a GPU that is taken so would reach."""
    return REACHES[dma].words or _OF_MACHINE[method]
