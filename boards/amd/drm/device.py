"""struct drm_amdgpu_info_device of a chip.

src: Linux 6.12, amdgpu/amdgpu_kms.c AMDGPU_INFO_DEV_INFO. What only graphics, displays or video
use is zero: render backends, geometry, constant RAM, shadow areas; so are caches of which KFD's
topology has no node on a board.
"""

from __future__ import annotations

from boards.amd.chip_data import (
    DRM_IDS,
    L2_KIB,
    MEMORY_BITS,
    MEMORY_MHZ,
    VRAM_GDDR6,
    VRAM_HBM,
    VRAM_LPDDR5,
)
from boards.amd.cp.engine_types import Chip
from boards.amd.drm import types as d

_PAGE, _KHZ_PER_MHZ = 4096, 1000
_VM_BYTES, _HOLE_START, _HOLE_END = 1 << 48, 1 << 47, 0xFFFF_8000_0000_0000
_RESERVED_BOTTOM, _RESERVED_TOP = 1 << 16, (1 << 16) + (2 << 20) + (2 << 20)
"""src: amdgpu_gmc.h AMDGPU_GMC_HOLE_*, amdgpu_vm.h AMDGPU_VA_RESERVED_*; gmc_v*.c: 48 bits"""
_FRAGMENT_BYTES = _PAGE << 9
"""src: gmc_v*.c amdgpu_vm_adjust_size(adev, 256 * 1024, 9, 3, 48): fragments of 2^9 pages"""
_COUNTER_MHZ = 100
"""The board's counter. The kernel reports 99.81 MHz for processors' GPUs (soc21_get_xclk())."""
_GFX_CONTEXTS = 8
"""src: gfx_v*.c max_hw_contexts"""
_PCIE_GEN, _PCIE_LANES = 4, 16
"""As KFD's links report it: 32,000 MB/s."""


def _bitmap(chip: Chip) -> dict[str, int]:
    """Active CUs of each array of the first XCC; where some are off, the last arrays lack them.

    src: gfx_v11_0.c gfx_v11_0_get_cu_info(): engine 4 and later in columns 2 and 3
    """
    per_engine = chip.properties["simd_arrays_per_engine"]
    arrays = chip.properties["array_count"] // chip.xccs
    most, rest = divmod(chip.cus // chip.xccs, arrays)
    found = {}
    for number in range(arrays):
        engine, array = divmod(number, per_engine)
        cus = most + (number < rest)
        found[f"cu_bitmap[{engine % 4}][{array + engine // 4 * 2}]"] = (1 << cus) - 1
    return found


def _vram_type(chip: Chip) -> int:
    if chip.carveout_bytes:
        return VRAM_LPDDR5
    return VRAM_HBM if chip.family == "gfx9" else VRAM_GDDR6


def device_info(chip: Chip) -> bytes:
    """The whole struct. Clocks are in kHz."""
    family, external_rev = DRM_IDS[chip.gc]
    engine_khz = chip.properties["max_engine_clk_fcompute"] * _KHZ_PER_MHZ
    vm_bytes, l2_bytes = _VM_BYTES - _RESERVED_TOP, L2_KIB << 10
    values = {
        "device_id": chip.properties["device_id"], "external_rev": external_rev, "family": family,
        "num_shader_engines":
            chip.properties["array_count"] // chip.properties["simd_arrays_per_engine"]
            // chip.xccs,
        "num_shader_arrays_per_engine": chip.properties["simd_arrays_per_engine"],
        "gpu_counter_freq": _COUNTER_MHZ * _KHZ_PER_MHZ,
        "max_engine_clock": engine_khz, "min_engine_clock": engine_khz,
        "max_memory_clock": MEMORY_MHZ * _KHZ_PER_MHZ,
        "min_memory_clock": MEMORY_MHZ * _KHZ_PER_MHZ,
        "cu_active_number": chip.cus, "num_hw_gfx_contexts": _GFX_CONTEXTS,
        "pcie_gen": _PCIE_GEN, "pcie_num_lanes": _PCIE_LANES,
        "ids_flags": d.IDS_FLAGS_FUSION if chip.carveout_bytes else 0,
        "virtual_address_offset": _RESERVED_BOTTOM, "virtual_address_max": _HOLE_START,
        "high_va_offset": _HOLE_END, "high_va_max": _HOLE_END | vm_bytes,
        "virtual_address_alignment": _PAGE, "gart_page_size": _PAGE,
        "pte_fragment_size": _FRAGMENT_BYTES,
        "vram_type": _vram_type(chip), "vram_bit_width": MEMORY_BITS,
        "wave_front_size": chip.lanes,
        "num_cu_per_sh": chip.properties["cu_per_simd_array"],
        "gl2c_cache_size": l2_bytes if chip.family in ("gfx11", "gfx12") else 0,
    }  # fmt: skip
    return d.DEVICE.make(**values, **_bitmap(chip))
