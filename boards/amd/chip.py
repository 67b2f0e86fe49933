"""Chips by name: what sysfs prints of them, and how large the areas of their queues must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from boards.amd.chip_data import NUMBERS, Numbers
from boards.amd.cp.engine_types import Chip

_PAGE = 4096
# src: amdkfd/kfd_queue.c SGPR_SIZE_PER_CU, HWREG_SIZE_PER_CU, DEBUGGER_BYTES_*
_SGPR_BYTES, _HWREG_BYTES, _HEADER_BYTES = 0x4000, 0x1000, 40
_DEBUG_BYTES_PER_WAVE, _DEBUG_ALIGN = 32, 64
_GFX1151, _OLD_VGPR_BYTES = 110501, 0x40000
_NAVI10, _GFX10_STACK_LIMIT = 100100, 0x7000
EOP_BYTES = 4096
"""src: kfd_queue_ctx_save_restore_size() eop_buffer_size of all chips here"""
FIRST_MINOR = 128
# src: Linux 6.12, amdkfd/kfd_topology.h HSA_CAP_*, kfd_topology.c kfd_topology_set_capabilities():
# 4 watch points, doorbells of type 2.0, trap debugging; no SVMAPI, as without HSA_AMD_SVM.
_CAPABILITY = 0x2003_A280
_MORE = {"gfx9": 0x4_0000, "gfx12": 0x4000_0000}
"""By family: debugging of single memory operations, of single ALU operations."""


def _align(value: int, to: int) -> int:
    return -(-value // to) * to


@dataclass(frozen=True, slots=True)
class SaveSizes:
    """Areas of a compute queue, of one XCC each."""

    ctl_stack: int
    cwsr: int
    debug: int


def save_sizes(n: Numbers, *, old: bool = False) -> SaveSizes:
    """src: amdkfd/kfd_queue.c kfd_queue_ctx_save_restore_size(); gfx950 as since Linux 6.14.

    `old`: as before "drm/amdkfd: bump minimum vgpr size for gfx1151" (December 2025, and stable).
    """
    registers = n.save_vgpr_bytes
    if old and n.target_version == _GFX1151:
        registers = _OLD_VGPR_BYTES
    cus = n.cus // n.xccs
    if n.target_version < _NAVI10:
        waves = min(cus * 40, n.arrays // n.xccs // n.arrays_per_engine * 512)
    else:
        waves = cus * 32
    per_wave = 8 if n.target_version < _NAVI10 else 12
    stack = _align(_HEADER_BYTES + waves * per_wave + 8, _PAGE)
    if n.family == "gfx10":
        stack = min(stack, _GFX10_STACK_LIMIT)
    per_cu = registers + _SGPR_BYTES + n.lds_kib * 1024 + _HWREG_BYTES
    data = _align(cus * per_cu, _PAGE)
    return SaveSizes(stack, stack + data, _align(waves * _DEBUG_BYTES_PER_WAVE, _DEBUG_ALIGN))


def _properties(n: Numbers) -> Mapping[str, int]:
    """A node's properties. src: amdkfd/kfd_topology.c node_show(), names and order."""
    sizes = save_sizes(n)
    return {
        "cpu_cores_count": 0, "simd_count": n.cus * n.simds_per_cu, "mem_banks_count": 1,
        "caches_count": 1, "io_links_count": 1, "p2p_links_count": 0, "cpu_core_id_base": 0,
        "simd_id_base": 0x80001020, "max_waves_per_simd": 8 if n.family == "gfx9" else 16,
        "lds_size_in_kb": n.lds_kib, "gds_size_in_kb": 0, "num_gws": 64,
        "wave_front_size": n.lanes, "array_count": n.arrays,
        "simd_arrays_per_engine": n.arrays_per_engine, "cu_per_simd_array": n.cus_per_array,
        "simd_per_cu": n.simds_per_cu, "max_slots_scratch_cu": 32,
        "gfx_target_version": n.target_version, "vendor_id": 0x1002, "device_id": n.device_id,
        "location_id": 0x300, "domain": 0, "drm_render_minor": FIRST_MINOR, "hive_id": 0,
        "num_sdma_engines": n.sdma_engines, "num_sdma_xgmi_engines": n.sdma_xgmi_engines,
        "num_sdma_queues_per_engine": n.sdma_queues,
        "num_cp_queues": 24 if n.family == "gfx9" else 8,
        "cwsr_size": sizes.cwsr, "ctl_stack_size": sizes.ctl_stack,
        "max_engine_clk_fcompute": 2100, "local_mem_size": 0, "fw_version": 2140,
        "capability": _CAPABILITY | _MORE.get(n.family, 0), "debug_prop": 1495,
        "sdma_fw_version": 24,
        "unique_id": 0x5A17_0000_0000_0000 | n.target_version, "num_xcc": n.xccs,
        "max_engine_clk_ccompute": 4000,
    }  # fmt: skip


def names() -> list[str]:
    """All chips there are boards of."""
    return list(NUMBERS)


def chip(name: str) -> Chip:
    """A chip by name. Raises: KeyError."""
    n = NUMBERS[name]
    ip = {
        "GC": n.gc, "SDMA0": n.sdma, "MMHUB": n.mmhub, "NBIF": n.nbif, "MP0": n.mp, "MP1": n.mp,
        "HDP": n.sdma, "OSSSYS": n.sdma,
    }  # fmt: skip
    return Chip(
        name, n.family, n.target_version, n.lanes, n.xccs, n.cus, n.lds_kib * 1024, n.gc, n.sdma,
        n.sdma_engines, n.sdma_xgmi_engines, n.sdma_queues, ip, _properties(n),
        n.carveout_mib << 20,
    )  # fmt: skip


def sizes_of(name: str, *, old: bool = False) -> SaveSizes:
    """What the kernel demands of the queues of a chip."""
    return save_sizes(NUMBERS[name], old=old)
