"""What memory and page tables need of a bare GPU."""

from __future__ import annotations

from typing import Protocol

from drivers.bare.vram import VramPages
from drivers.base.contracts import Region


class Card(Protocol):
    """A GPU's own memory, as the host sees it."""

    vram: Region
    """Through the BAR, which may be smaller."""
    pages: VramPages
    physical_base: int
    """The address of VRAM's first byte as page-table entries have it."""

    def flush_writes(self) -> None:
        """Make what was written through the BAR visible to the GPU. Raises: DeviceGone."""
