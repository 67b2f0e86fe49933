"""Arguments and answers of the render node's ioctls: fields in order, as the C compiler has them.

src: include/uapi/drm/drm.h, include/uapi/drm/amdgpu_drm.h of Linux 6.12
"""

from __future__ import annotations

from boards.amd.kfd.types import CStruct

DRM_MAJOR = 226
"""src: drivers/gpu/drm/drm_internal.h DRM_MAJOR, Documentation/admin-guide/devices.txt"""
IOCTL_TYPE, COMMAND_BASE, COMMAND_END = ord("d"), 0x40, 0xA0
"""src: drm.h DRM_IOCTL_BASE, DRM_COMMAND_BASE, DRM_COMMAND_END"""
CAP_PRIME, CAP_TIMESTAMP_MONOTONIC, CAP_SYNCOBJ, CAP_SYNCOBJ_TIMELINE = 5, 6, 0x13, 0x14
_ARRAYS = [(i, j) for i in range(4) for j in range(4)]


def _grid(name: str) -> str:
    """A member u32 name[4][4], one entry after the other."""
    return ",".join(f"u32 {name}[{i}][{j}]" for i, j in _ARRAYS)


VERSION = CStruct(
    "i32 version_major, i32 version_minor, i32 version_patchlevel, u32 pad, u64 name_len, u64 name,"
    "u64 date_len, u64 date, u64 desc_len, u64 desc"
)
GET_CAP = CStruct("u64 capability, u64 value")
INFO = CStruct(
    "u64 return_pointer, u32 return_size, u32 query, u32 word_0, u32 word_1, u32 word_2, u32 word_3"
)
"""The words are a union, of READ_MMR_REG and FW_VERSION among others."""
MMR_REG = {"dword_offset": "word_0", "count": "word_1", "instance": "word_2", "flags": "word_3"}
QUERY_FW = {"fw_type": "word_0", "ip_instance": "word_1", "index": "word_2"}

FIRMWARE = CStruct("u32 ver, u32 feature")
VRAM_GTT = CStruct("u64 vram_size, u64 vram_cpu_accessible_size, u64 gtt_size")
HEAP = CStruct("u64 total_heap_size, u64 usable_heap_size, u64 heap_usage, u64 max_allocation")
HW_IP = CStruct(
    "u32 hw_ip_version_major, u32 hw_ip_version_minor, u64 capabilities_flags,"
    "u32 ib_start_alignment, u32 ib_size_alignment, u32 available_rings, u32 ip_discovery_version"
)
DEVICE = CStruct(
    "u32 device_id, u32 chip_rev, u32 external_rev, u32 pci_rev, u32 family,"
    "u32 num_shader_engines, u32 num_shader_arrays_per_engine, u32 gpu_counter_freq,"
    "u64 max_engine_clock, u64 max_memory_clock, u32 cu_active_number, u32 cu_ao_mask,"
    + _grid("cu_bitmap")
    + ",u32 enabled_rb_pipes_mask, u32 num_rb_pipes, u32 num_hw_gfx_contexts, u32 pcie_gen,"
    "u64 ids_flags, u64 virtual_address_offset, u64 virtual_address_max,"
    "u32 virtual_address_alignment, u32 pte_fragment_size, u32 gart_page_size, u32 ce_ram_size,"
    "u32 vram_type, u32 vram_bit_width, u32 vce_harvest_config, u32 gc_double_offchip_lds_buf,"
    "u64 prim_buf_gpu_addr, u64 pos_buf_gpu_addr, u64 cntl_sb_buf_gpu_addr,"
    "u64 param_buf_gpu_addr, u32 prim_buf_size, u32 pos_buf_size, u32 cntl_sb_buf_size,"
    "u32 param_buf_size, u32 wave_front_size, u32 num_shader_visible_vgprs, u32 num_cu_per_sh,"
    "u32 num_tcc_blocks, u32 gs_vgt_table_depth, u32 gs_prim_buffer_depth,"
    "u32 max_gs_waves_per_vgt, u32 pcie_num_lanes,"
    + _grid("cu_ao_bitmap")
    + ",u64 high_va_offset, u64 high_va_max, u32 pa_sc_tile_steering_override, u32 pad,"
    "u64 tcc_disabled_mask, u64 min_engine_clock, u64 min_memory_clock, u32 tcp_cache_size,"
    "u32 num_sqc_per_wgp, u32 sqc_data_cache_size, u32 sqc_inst_cache_size, u32 gl1c_cache_size,"
    "u32 gl2c_cache_size, u64 mall_size, u32 enabled_rb_pipes_mask_hi, u32 shadow_size,"
    "u32 shadow_alignment, u32 csa_size, u32 csa_alignment, u32 pad_2"
)
"""struct drm_amdgpu_info_device; later kernels append to it."""

NR_VERSION, NR_GET_CAP, NR_INFO = 0x00, 0x0C, COMMAND_BASE + 0x05
REQUESTS = {
    # number: (layout, whether it is copied in, whether it is copied out)
    NR_VERSION: (VERSION, True, True),
    NR_GET_CAP: (GET_CAP, True, True),
    NR_INFO: (INFO, True, False),
}

RENDER_CORE = {0x09, 0x2D, 0x2E, *range(0xBF, 0xC6), 0xCA, 0xCB, 0xCC, 0xCD, 0xCF}
"""Commands of every driver that a render node allows and a board has not: buffers, sync objects.

src: drivers/gpu/drm/drm_ioctl.c drm_ioctls[], DRM_RENDER_ALLOW
"""
PRIMARY_CORE = {
    0x01, 0x02, 0x05, 0x06, 0x07, 0x0A, 0x0B, 0x0D, 0x10, 0x11, 0x12, 0x13, 0x1E, 0x1F, 0x27,
    0x28, 0x2C, 0x3A, 0x3B, 0x3C, 0x3F, *range(0xA0, 0xBF), 0xC6, 0xC7, 0xC8, 0xC9, 0xCE, 0xD0,
}  # fmt: skip
"""Commands that need the primary node (card0), SET_CLIENT_CAP among them: EACCES. src: the same"""
SCHED = COMMAND_BASE + 0x15
"""Needs the DRM master. src: amdgpu_drv.c amdgpu_ioctls_kms[]"""

HW_IP_INFO, HW_IP_COUNT = 0x02, 0x03
HW_IP_GFX, HW_IP_COMPUTE, HW_IP_DMA, HW_IP_LAST = 0, 1, 2, 9
ACCEL_WORKING, TIMESTAMP, FW_VERSION, VRAM_USAGE, GTT_USAGE = 0x00, 0x05, 0x0E, 0x10, 0x11
VRAM_GTT_SIZES, READ_MMR_REG, DEV_INFO, VIS_VRAM_USAGE, MEMORY = 0x14, 0x15, 0x16, 0x17, 0x19
FW_RLC, FW_MEC, FW_SDMA, FW_TA = 0x07, 0x08, 0x0B, 0x13
FW_TYPES = {*range(0x01, 0x09), *range(0x0A, 0x1D)}
TA_INDEXES = range(2, 8)
"""src: amdgpu_ucode.h enum ta_fw_type: amdgpu_firmware_info() knows XGMI and those after it"""
IDS_FLAGS_FUSION = 1
MMR_INDEX_MASK, MMR_SH_SHIFT = 0xFF, 8
