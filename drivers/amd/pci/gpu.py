"""What the modules of the IP blocks share of one GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from drivers.amd.chips import Chip
from drivers.amd.kfd.nodes import GpuNode
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.ip_table import IpTable
from drivers.amd.pci.mmio import Mmio
from drivers.amd.pci.registers import Version
from drivers.bare.mmio import Block
from drivers.bare.place import Place
from drivers.base.contracts import Region

if TYPE_CHECKING:
    from drivers.bare.vram import VramPages
    from drivers.pci.session import PciSession


def _no_flush() -> None:
    """Before NBIO is up there is nothing to flush."""


@dataclass(slots=True)
class BareGpu:
    """One GPU without a kernel driver. `boot` fills it in, step by step."""

    session: PciSession
    chip: Chip
    ips: IpTable
    mmio: Mmio
    node: GpuNode
    vram: Region
    """BAR0. Smaller than `vram_bytes` where the BAR was not resized."""
    vram_bytes: int
    pages: VramPages
    """Between the boot's part of VRAM and the firmware's."""
    mc_base: int = 0
    """Address of VRAM's first byte as the GPU's engines see it without page tables."""
    physical_base: int = 0
    """The same as page-table entries see it: 0, but on a member of an XGMI hive."""
    flush_writes: Callable[[], None] = field(default=_no_flush)
    """Make what was written through BAR0 visible to the GPU: one write, and a read that posts it.

    Raises: DeviceGone.
    """
    interrupt_rptr: int = 0
    """How far `ih.poll` has read the interrupt ring, in bytes."""

    @property
    def address(self) -> str:
        """Where it is on PCI."""
        return self.session.address

    def block(self, hw: HwId, instance: int = 0) -> Block:
        """Registers of a block by name."""
        return self.mmio.block(hw, instance)

    @property
    def xccs(self) -> tuple[int, ...]:
        """The graphics cores that work together as one, by instance."""
        return self.ips.instances(HwId.GC)

    @property
    def gc_version(self) -> Version:
        """Version of the graphics core."""
        return self.ips.version(HwId.GC)

    def mc_address(self, place: Place | int) -> int:
        """Where a byte of VRAM is for engines that use no page table (PSP, SMU, IH, HQDs)."""
        return self.mc_base + (place if isinstance(place, int) else place.offset)
