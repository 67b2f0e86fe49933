"""Bringing up one memory hub: apertures, translation caches, faults, contexts, invalidation.

MMHUB and the hub of each graphics core have the same registers; roles make their names alike.

Source: Linux 6.12, gfxhub_v1_2.c, gfxhub_v3_0.c, gfxhub_v12_0.c, mmhub_v1_8.c, mmhub_v3_0.c,
mmhub_v4_1_0.c: the order and values of *_gart_enable() and *_set_fault_enable_default()
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from drivers.amd.pci.layout import DUMMY_PAGE, SCRATCH_PAGE, TABLE_ROOTS
from drivers.amd.pci.page_format import MTYPE_UC, PTB, VALID, format_of
from drivers.bare.mmio import Block

if TYPE_CHECKING:
    from drivers.amd.pci.gpu import BareGpu

VMIDS: Final = 16
ENGINES: Final = 18
"""Invalidation engines of a hub."""
PAGE_SHIFT: Final = 12
FB_SHIFT: Final = 24
SYSTEM_SHIFT: Final = 18
"""Units of FB_LOCATION, FB_OFFSET and AGP (16 MiB), and of SYSTEM_APERTURE (256 KiB)."""
_AGP_OFF: Final = (1 << 48) - 1 >> FB_SHIFT
_ALL_PAGES: Final = (1 << 37) - 1
"""ADDR_RANGE of an engine that invalidates everything."""
_IDENTITY_OFF: Final = (1 << 36) - 1
_L2_CNTL5: Final = 0x3FE0
"""# src: gc_11_0_0_default.h regGCVM_L2_CNTL5_DEFAULT; gfxhub_v12_0.c regGCVM_L2_CNTL5_DEFAULT"""
FAULTS: Final = ("range", "dummy_page", "pde0", "valid", "read", "write", "execute")
_DEFAULTS: Final = (
    "range", "pde0", "pde1", "pde2", "translate_further", "nack", "dummy_page", "valid", "read",
    "write", "execute",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Depth:
    """The shape of page tables, for CONTEXT_CNTL and the L2 cache."""

    directories: int
    block_size: int
    bank_select: int
    big_fragment: int


_PLAIN: Final = Depth(3, 0, 9, 6)
_FURTHER: Final = Depth(2, 9, 12, 9)
"""# src: gfxhub_v1_2.c gfxhub_v1_2_xcc_setup_vmid_config(), gmc.translate_further"""


def _shape(gpu: BareGpu) -> Depth:
    return _FURTHER if _further(gpu) else _PLAIN


def _further(gpu: BareGpu) -> bool:
    return format_of(gpu.gc_version).further


def up(gpu: BareGpu, hub: Block, first_mc: int, last_mc: int) -> None:
    """One hub, with VMID 0 on the frame-buffer aperture [first_mc, last_mc] and no other VMID."""
    _apertures(gpu, hub, first_mc, last_mc)
    _caches(gpu, hub)
    _faults(gpu, hub)
    _vmid0(gpu, hub)
    for vmid in range(1, VMIDS):
        hub.write(f"VM_CONTEXT{vmid}_CNTL", 0)
    _pair(hub, "VM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR", _IDENTITY_OFF)
    _pair(hub, "VM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR", 0)
    _pair(hub, "VM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET", 0)
    for engine in range(ENGINES):
        _pair(hub, f"VM_INVALIDATE_ENG{engine}_ADDR_RANGE", _ALL_PAGES)


def _pair(hub: Block, name: str, value: int, low: str = "_LO32", high: str = "_HI32") -> None:
    hub.write_pair(name + low, name + high, value)


def _apertures(gpu: BareGpu, hub: Block, first_mc: int, last_mc: int) -> None:
    hub.write("MC_VM_AGP_BASE", 0)
    hub.write("MC_VM_AGP_BOT", _AGP_OFF)
    hub.write("MC_VM_AGP_TOP", 0)
    hub.write("MC_VM_SYSTEM_APERTURE_LOW_ADDR", first_mc >> SYSTEM_SHIFT)
    hub.write("MC_VM_SYSTEM_APERTURE_HIGH_ADDR", last_mc >> SYSTEM_SHIFT)
    page = gpu.physical_base + SCRATCH_PAGE.offset >> PAGE_SHIFT
    _pair(hub, "MC_VM_SYSTEM_APERTURE_DEFAULT_ADDR", page, "_LSB", "_MSB")


def _caches(gpu: BareGpu, hub: Block) -> None:
    shape, further = _shape(gpu), _further(gpu)
    # amdgpu sets enable_default_page_out_to_system_memory, because its default page is one of the
    # host's, mapped for DMA (gfxhub_v3_0.c, amdgpu_gart.c dummy_page_addr). Ours is VRAM: set, the
    # bit would make its address one on the bus. src: gc_11_0_0_default.h GCVM_L2_CNTL has it 0
    # ATC_EN stays off, unlike in amdgpu: no address is translated by the host's IOMMU (ATS).
    # src: tinygrad ip.py init_hub() runs MI300X without it
    hub.update(
        "MC_VM_MX_L1_TLB_CNTL", enable_l1_tlb=1, system_access_mode=3,
        enable_advanced_driver_model=1, system_aperture_unmapped_access=0, eco_bits=0,
        mtype=MTYPE_UC,
    )  # fmt: skip
    hub.update(
        "VM_L2_CNTL", enable_l2_cache=1, enable_l2_fragment_processing=int(further),
        enable_default_page_out_to_system_memory=0, l2_pde0_cache_tag_generation_mode=0,
        pde_fault_classification=0, context1_identity_access_mode=1, identity_mode_fragment_size=0,
    )  # fmt: skip
    hub.update("VM_L2_CNTL2", invalidate_all_l1_tlbs=1, invalidate_l2_cache=1)
    hub.set(
        "VM_L2_CNTL3", bank_select=shape.bank_select,
        l2_cache_bigk_fragment_size=shape.big_fragment, l2_cache_bigk_associativity=1,
        l2_cache_4k_associativity=1,
    )  # fmt: skip
    hub.set("VM_L2_CNTL4", l2_cache_4k_partition_count=1)
    if not further:
        hub.write("VM_L2_CNTL5", _L2_CNTL5)


def _faults(gpu: BareGpu, hub: Block) -> None:
    """Redirect accesses that fault to an unused page of VRAM, and report them."""
    page = gpu.physical_base + DUMMY_PAGE.offset >> PAGE_SHIFT
    _pair(hub, "VM_L2_PROTECTION_FAULT_DEFAULT_ADDR", page)
    hub.update("VM_L2_PROTECTION_FAULT_CNTL2", active_page_migration_pte_read_retry=1)
    defaults = {f"{kind}_protection_fault_enable_default": 1 for kind in _DEFAULTS}
    hub.update("VM_L2_PROTECTION_FAULT_CNTL", clear_protection_fault_status_addr=1, **defaults)


def _vmid0(gpu: BareGpu, hub: Block) -> None:
    """VMID 0: a table of one page that maps nothing, so that all but the aperture faults.

    The caller flushes HDP before it uses the hub.
    """
    root = TABLE_ROOTS.offset
    gpu.vram.write64(root, format_of(gpu.gc_version).empty(PTB))
    set_context(hub, 0, gpu.physical_base + root | VALID, 0, Depth(0, 0, 0, 0))


def set_context(hub: Block, vmid: int, base: int, last_va: int, depth: Depth) -> None:
    """Let a VMID use a table for the addresses up to `last_va`. Retries are off."""
    name = f"VM_CONTEXT{vmid}"
    _pair(hub, f"{name}_PAGE_TABLE_START_ADDR", 0)
    _pair(hub, f"{name}_PAGE_TABLE_END_ADDR", last_va >> PAGE_SHIFT)
    _pair(hub, f"{name}_PAGE_TABLE_BASE_ADDR", base)
    reported = {f"{kind}_protection_fault_enable_{what}": 1
            for kind in FAULTS for what in ("interrupt", "default")}  # fmt: skip
    value = hub.encode(
        "VM_CONTEXT0_CNTL", enable_context=1, page_table_depth=depth.directories,
        page_table_block_size=depth.block_size, **reported,
    )  # fmt: skip
    hub.write(f"{name}_CNTL", value)


def set_process_context(gpu: BareGpu, hub: Block, vmid: int, base: int, last_va: int) -> None:
    """The context of a process, whose tables have all levels."""
    set_context(hub, vmid, base, last_va, _shape(gpu))
