"""The page table of one VMID: where its root is, and the registers of the hubs that hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drivers.amd.chips import PAGE_BYTES
from drivers.amd.pci.layout import TABLE_ROOTS
from drivers.amd.pci.page_format import VALID, format_of
from drivers.bare.page_table import PageTable

if TYPE_CHECKING:
    from drivers.amd.pci.gpu import BareGpu


def page_table(gpu: BareGpu, vmid: int) -> PageTable:
    """An empty page table of a VMID. Raises: Unsupported."""
    root_offset = TABLE_ROOTS.offset + vmid * PAGE_BYTES
    return PageTable(gpu, format_of(gpu.gc_version), root_offset)


def base_of(table: PageTable) -> int:
    """The root, as CONTEXT_PAGE_TABLE_BASE_ADDR wants it."""
    return table.root | VALID
