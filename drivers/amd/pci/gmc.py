"""The memory controller: where VRAM is, who translates what, and forgetting translations.

Copies go through the hub of the graphics core, on gfx942 through MMHUB (sdma_v4_4_2.c, vm_hub).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from drivers.amd.pci import hdp
from drivers.amd.pci import hub as vm_hub
from drivers.amd.pci.fault import Fault, decode_status
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.page_table import base_of
from drivers.bare.address_space import LAST_VA
from drivers.bare.mmio import Block

if TYPE_CHECKING:
    from drivers.amd.pci.gpu import BareGpu
    from drivers.bare.page_table import PageTable

ENGINE: Final = 17
"""The invalidation engine that drivers use themselves. # src: gmc_v11_0_flush_gpu_tlb()"""
LEGACY, HEAVY = 0, 2
"""FLUSH_TYPE: heavy also waits for accesses under way. # src: kgd_pp_interface.h TLB_FLUSH_TYPE"""
FLUSH_S: Final = 1.0
GFX9: Final = 9
_FB_MASK: Final = (1 << 24) - 1


def memory_hubs(gpu: BareGpu) -> tuple[Block, ...]:
    """MMHUB; gfx942 has one on each of its dies."""
    return tuple(gpu.block(HwId.MMHUB, at) for at in gpu.ips.instances(HwId.MMHUB))


def graphics_hubs(gpu: BareGpu) -> tuple[Block, ...]:
    """The hub of each graphics core."""
    return tuple(gpu.block(HwId.GC, xcc) for xcc in gpu.xccs)


def process_hubs(gpu: BareGpu) -> tuple[Block, ...]:
    """Those through which queues of a process reach memory."""
    memory = memory_hubs(gpu) if gpu.gc_version[0] == GFX9 else ()
    return graphics_hubs(gpu) + memory


def locate(gpu: BareGpu) -> tuple[int, int]:
    """Where VRAM lies for engines (`mc_base`) and for page tables (`physical_base`).

    Returns the first and last address of its aperture.
    # src: gmc_v11_0_vram_gtt_location(), gfxhub_v1_2_get_xgmi_info()
    """
    hub = memory_hubs(gpu)[0]
    first = (hub.read("MC_VM_FB_LOCATION_BASE") & _FB_MASK) << vm_hub.FB_SHIFT
    top = hub.read("MC_VM_FB_LOCATION_TOP") & _FB_MASK
    offset = (hub.read("MC_VM_FB_OFFSET") & _FB_MASK) << vm_hub.FB_SHIFT
    node = 0
    if "MC_VM_XGMI_LFB_CNTL" in hub:
        hive = hub.fields("MC_VM_XGMI_LFB_CNTL")
        if hive["pf_max_region"]:
            size = hub.fields("MC_VM_XGMI_LFB_SIZE")["pf_lfb_size"] << vm_hub.FB_SHIFT
            node = hive["pf_lfb_region"] * size
    gpu.mc_base = first + node
    gpu.physical_base = offset + node
    return first, (top + 1 << vm_hub.FB_SHIFT) - 1


def up(gpu: BareGpu) -> None:
    """Find VRAM and bring up the memory hubs, and the host's way to VRAM.

    # src: gmc_v9_0_hw_init(): HDP behind the hubs, then its first flush
    """
    first, last = locate(gpu)
    for hub in memory_hubs(gpu):
        vm_hub.up(gpu, hub, first, last)
    hdp.up(gpu)
    gpu.flush_writes()
    for hub in memory_hubs(gpu):
        if gpu.gc_version[0] > GFX9:
            hub.write(f"VM_INVALIDATE_ENG{ENGINE}_SEM", 0)  # an owner who was killed may hold it
        _flush(gpu, hub, 0, memory=True)


def up_graphics(gpu: BareGpu) -> None:
    """The hubs of the graphics cores, once these are out of reset. `mc_base` is known by then."""
    first, last = locate(gpu)
    for hub in graphics_hubs(gpu):
        vm_hub.up(gpu, hub, first, last)
    gpu.flush_writes()
    for hub in graphics_hubs(gpu):
        _flush(gpu, hub, 0, memory=False)


def down(gpu: BareGpu) -> None:
    """No VMID but 0 translates anything through the memory hubs any more."""
    for hub in memory_hubs(gpu):
        disable_all(hub)


def disable_all(hub: Block) -> None:
    """Every VMID of a process off."""
    for vmid in range(1, vm_hub.VMIDS):
        hub.write(f"VM_CONTEXT{vmid}_CNTL", 0)


def enable_context(gpu: BareGpu, vmid: int, table: PageTable) -> None:
    """Let the queues of a VMID use a table, with nothing older remembered."""
    for hub in process_hubs(gpu):
        vm_hub.set_process_context(gpu, hub, vmid, base_of(table), LAST_VA)
    flush_tlb(gpu, vmid)


def disable_context(gpu: BareGpu, vmid: int) -> None:
    """Everything that the VMID accesses faults from now on; no queue of it may run."""
    for hub in process_hubs(gpu):
        hub.write(f"VM_CONTEXT{vmid}_CNTL", 0)
    flush_tlb(gpu, vmid)


def flush_tlb(gpu: BareGpu, vmid: int) -> None:
    """Forget the translations of a VMID, after its page tables changed. Raises: DeviceTimeout.

    One read for each hub of the process where it answers at once.
    """
    gpu.flush_writes()
    memory = memory_hubs(gpu)
    for hub in process_hubs(gpu):
        _flush(gpu, hub, vmid, memory=hub in memory)


def _flush(gpu: BareGpu, hub: Block, vmid: int, *, memory: bool) -> None:
    # gfx9 needs no semaphore (gmc_v9_0_use_invalidate_semaphore()), gfx11 and gfx12 do on MMHUB,
    # whose gfx12 knows the legacy flush alone (mmhub_v4_1_0_get_invalidate_req())
    guarded = memory and gpu.gc_version[0] > GFX9
    name = f"VM_INVALIDATE_ENG{ENGINE}"
    bit = 1 << vmid
    request = hub.encode(
        "VM_INVALIDATE_ENG0_REQ", per_vmid_invalidate_req=bit,
        flush_type=LEGACY if memory else HEAVY, invalidate_l2_ptes=1, invalidate_l2_pde0=1,
        invalidate_l2_pde1=1, invalidate_l2_pde2=1, invalidate_l1_ptes=1,
    )  # fmt: skip
    if guarded:
        hub.wait(f"{name}_SEM", 1, 1, FLUSH_S)
    try:
        hub.write(f"{name}_REQ", request)
        hub.wait(f"{name}_ACK", bit, bit, FLUSH_S)
    finally:
        if guarded:
            hub.write(f"{name}_SEM", 0)
    if guarded:
        # src: gmc_v11_0_flush_gpu_tlb(): MMHUB has a private cache of its own; read back to be sure
        hub.update("VM_L2_BANK_SELECT_RESERVED_CID2", reserved_cache_private_invalidation=1)
        hub.read("VM_L2_BANK_SELECT_RESERVED_CID2")


def read_fault(gpu: BareGpu) -> Fault | None:
    """What the fault registers hold since they were cleared; they keep the first fault."""
    for hub in process_hubs(gpu):
        wide = "VM_L2_PROTECTION_FAULT_STATUS_LO32"
        name = wide if wide in hub else "VM_L2_PROTECTION_FAULT_STATUS"
        status = hub.read(name)
        if status:
            low = hub.read("VM_L2_PROTECTION_FAULT_ADDR_LO32", ones=True)
            high = hub.fields("VM_L2_PROTECTION_FAULT_ADDR_HI32")["logical_page_addr_hi4"]
            va = (high << 32 | low) << vm_hub.PAGE_SHIFT
            memory = hub in memory_hubs(gpu)
            return decode_status(gpu.gc_version, memory, hub.decode(name, status), va)
    return None


def clear_fault(gpu: BareGpu) -> None:
    """Forget the fault, so that the next one is kept."""
    for hub in process_hubs(gpu):
        hub.update("VM_L2_PROTECTION_FAULT_CNTL", clear_protection_fault_status_addr=1)
