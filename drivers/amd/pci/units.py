"""What a topology would report of a GPU, computed from its discovery table and its fuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from drivers.amd.chips import Chip
from drivers.amd.kfd.nodes import HEAP_VRAM_PRIVATE, HEAP_VRAM_PUBLIC, GpuNode, MemoryBank
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.ip_table import IpTable
from drivers.bare.mmio import Block
from drivers.machine.buses import AMD

_QUEUES: Final = 8
"""Compute queues that the boot activates at most."""
_SDMA_QUEUES: Final = 2
_BUS_SHIFT, _SLOT_SHIFT = 8, 3
_CUS_PER_WGP: Final = 2
_WGP_SINCE: Final = (10, 0, 0)


def describe(
    chip: Chip, ips: IpTable, address: str, device_id: int, vram_bytes: int, bar_bytes: int
) -> GpuNode:
    """The GPU as its table describes it, before compute units that are fused off are known."""
    gc = ips.gc
    xccs = len(ips.instances(HwId.GC))
    arrays = gc.engines * gc.arrays_per_engine * xccs
    large = bar_bytes >= vram_bytes
    bank = MemoryBank(HEAP_VRAM_PUBLIC if large else HEAP_VRAM_PRIVATE, vram_bytes, 0, 0, 0)
    domain, bus, rest = address.split(":")
    slot, function = rest.split(".")
    location = int(bus, 16) << _BUS_SHIFT | int(slot, 16) << _SLOT_SHIFT | int(function)
    return GpuNode(
        index=0, gpu_id=0, name=chip.name, gfx_target_version=chip.target_version,
        vendor_id=AMD, device_id=device_id, domain=int(domain, 16), location_id=location,
        render_minor=0,
        simd_count=arrays * gc.cus_per_array * chip.family.simd_per_cu,
        simd_per_cu=chip.family.simd_per_cu,
        num_xcc=xccs, array_count=arrays, simd_arrays_per_engine=gc.arrays_per_engine,
        lds_kib=gc.lds_kib, wave_lanes=gc.wave_lanes, max_waves_per_simd=gc.max_waves_per_simd,
        scratch_slots_per_cu=gc.scratch_slots_per_cu, cwsr_size=0, ctl_stack_size=0,
        cp_queues=_QUEUES, sdma_engines=1, sdma_xgmi_engines=0,
        sdma_queues_per_engine=_SDMA_QUEUES, clock_mhz=0, mec_firmware=0, sdma_firmware=0,
        capability=0, unique_id=0, hive_id=0, banks=(bank,), links=(), peers=(),
    )  # fmt: skip


def count_cus(gpu: BareGpu) -> GpuNode:
    """The same without what is fused off, from the shader arrays' own registers.

    Hardware: two reads for each array; the graphics core has to be up.
    src: Linux 6.12, gfx_v11_0_get_cu_info(), gfx_v12_0_get_cu_info(), gfx_v9_4_3_get_cu_info()
    """
    total = sum(_of_xcc(gpu, xcc) for xcc in gpu.xccs)
    return replace(gpu.node, simd_count=total * gpu.chip.family.simd_per_cu)


def _of_xcc(gpu: BareGpu, xcc: int) -> int:
    gc, block = gpu.ips.gc, gpu.block(HwId.GC, xcc)
    pairs = gpu.ips.version(HwId.GC) >= _WGP_SINCE
    array_field = "sa_index" if pairs else "sh_index"
    field = "inactive_wgps" if pairs else "inactive_cus"
    units = gc.cus_per_array // (_CUS_PER_WGP if pairs else 1)
    dead = _dead_arrays(block) if pairs else 0
    active = 0
    for engine in range(gc.engines):
        for array in range(gc.arrays_per_engine):
            if dead >> (engine * gc.arrays_per_engine + array) & 1:
                continue
            select = {"se_index": engine, array_field: array, "instance_broadcast_writes": 1}
            block.set("GRBM_GFX_INDEX", **select)
            off = 0
            block.expect("CC_GC_SHADER_ARRAY_CONFIG", "GC_USER_SHADER_ARRAY_CONFIG")
            for name in ("CC_GC_SHADER_ARRAY_CONFIG", "GC_USER_SHADER_ARRAY_CONFIG"):
                off |= block.decode(name, block.read(name))[field]
            active += units - (off & (1 << units) - 1).bit_count()
    everyone = {"se_broadcast_writes": 1, "instance_broadcast_writes": 1}
    block.set("GRBM_GFX_INDEX", **everyone, **{array_field.replace("index", "broadcast_writes"): 1})
    return active * (_CUS_PER_WGP if pairs else 1)


def _dead_arrays(block: Block) -> int:
    """Shader arrays that are fused off, one bit each."""
    dead = 0
    block.expect("CC_GC_SA_UNIT_DISABLE", "GC_USER_SA_UNIT_DISABLE")
    for name in ("CC_GC_SA_UNIT_DISABLE", "GC_USER_SA_UNIT_DISABLE"):
        dead |= block.decode(name, block.read(name))["sa_disable"]
    return dead
