"""Which board, and how the product uses it: what the commands and tests ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OVER_PCI = "PCI"
"""The interface of every vendor's GPU that no kernel driver has."""
OVER_USB = "USB"
"""The same behind a bridge on USB."""


@dataclass(frozen=True, slots=True)
class Setup:
    """One machine with GPUs of a kind."""

    chip: str
    gpus: int = 1
    aql: bool | None = None
    """Whether compute queues read AQL packets; None for what the chip does best."""
    compiler: str = "LLVM"
    strict: bool = True
    vram_bytes: int | None = None
    """None: what a board of the chip has by itself."""
    iface: str = ""
    """"" for the first one of the vendor."""
    dma: str = ""
    """UNBOUND_DMA over PCI: "" for what the machine has, "vram" for a machine without an IOMMU."""
    late: bool = False
    """Queues run late, as silicon's do, so that a driver that forgets to wait is noticed."""
    trace: str = ""
    """File for every register access over PCI."""
    kernel: str = ""
    """Release of the kernel driver, one of the vendor's `kernels`; "" for its default."""
    tuning: Mapping[str, str] = field(default_factory=dict)
    """Variables of the user's that say how kernels are compiled and waited for."""

    @property
    def arguments(self) -> list[str]:
        """The same for `python -m boards run`."""
        found = ["--compiler", self.compiler]
        if self.iface:
            found += ["--iface", self.iface]
        if self.dma:
            found += ["--dma", self.dma.lower()]
        if self.kernel:
            found += ["--kernel", self.kernel]
        if self.aql is not None:
            found.append("--aql" if self.aql else "--pm4")
        return found
