"""Made-up machines with AMD GPUs: the sysfs files that the kernel's amdkfd and amdgpu print.

Names and order are those of kfd_topology.c in Linux 6.12; the numbers of gfx1100 and gfx942 are
what such cards print, the others follow from their data sheets.
"""

from __future__ import annotations

from collections.abc import Mapping

ROOT = "/sys/devices/virtual/kfd/kfd/topology"
Files = dict[str, bytes | str]

CPU = {
    "cpu_cores_count": 32, "simd_count": 0, "mem_banks_count": 1, "caches_count": 50,
    "io_links_count": 1, "p2p_links_count": 0, "cpu_core_id_base": 0, "simd_id_base": 0,
    "max_waves_per_simd": 0, "lds_size_in_kb": 0, "gds_size_in_kb": 0, "num_gws": 0,
    "wave_front_size": 0, "array_count": 0, "simd_arrays_per_engine": 0, "cu_per_simd_array": 0,
    "simd_per_cu": 0, "max_slots_scratch_cu": 0, "gfx_target_version": 0, "vendor_id": 0,
    "device_id": 0, "location_id": 0, "domain": 0, "drm_render_minor": 0, "hive_id": 0,
    "num_sdma_engines": 0, "num_sdma_xgmi_engines": 0, "num_sdma_queues_per_engine": 0,
    "num_cp_queues": 0, "cwsr_size": 0, "ctl_stack_size": 0, "max_engine_clk_ccompute": 5000,
}  # fmt: skip
GFX1100 = {
    "cpu_cores_count": 0, "simd_count": 192, "mem_banks_count": 1, "caches_count": 206,
    "io_links_count": 1, "p2p_links_count": 0, "cpu_core_id_base": 0, "simd_id_base": 2147488032,
    "max_waves_per_simd": 16, "lds_size_in_kb": 64, "gds_size_in_kb": 0, "num_gws": 64,
    "wave_front_size": 32, "array_count": 12, "simd_arrays_per_engine": 2,
    "cu_per_simd_array": 8, "simd_per_cu": 2, "max_slots_scratch_cu": 32,
    "gfx_target_version": 110000, "vendor_id": 4098, "device_id": 29772, "location_id": 768,
    "domain": 0, "drm_render_minor": 128, "hive_id": 0, "num_sdma_engines": 2,
    "num_sdma_xgmi_engines": 0, "num_sdma_queues_per_engine": 6, "num_cp_queues": 8,
    "cwsr_size": 0x2BEA000, "ctl_stack_size": 0xA000, "max_engine_clk_fcompute": 2482,
    "local_mem_size": 0, "fw_version": 2140, "capability": 671588992, "debug_prop": 1495,
    "sdma_fw_version": 20, "unique_id": 11673270660693242239, "num_xcc": 1,
    "max_engine_clk_ccompute": 5000,
}  # fmt: skip
GFX1102 = GFX1100 | {
    "simd_count": 64, "array_count": 4, "gfx_target_version": 110002, "device_id": 0x7480,
    "cwsr_size": 0xAA4000, "ctl_stack_size": 0x4000,
}  # fmt: skip
GFX1101 = GFX1100 | {
    "simd_count": 120, "array_count": 6, "gfx_target_version": 110001, "device_id": 0x747E,
    "cwsr_size": 0, "ctl_stack_size": 0,
}  # fmt: skip
GFX1201 = GFX1100 | {
    "simd_count": 128, "array_count": 8, "gfx_target_version": 120001, "device_id": 0x7550,
    "cwsr_size": 0x1D47000, "ctl_stack_size": 0x7000, "num_sdma_queues_per_engine": 8,
}  # fmt: skip
GFX1200 = GFX1201 | {
    "simd_count": 64, "array_count": 4, "gfx_target_version": 120000, "device_id": 0x7590,
    "cwsr_size": 0, "ctl_stack_size": 0,
}  # fmt: skip
_NEW = ("cwsr_size", "ctl_stack_size", "num_xcc", "debug_prop")
GFX1030 = {name: value for name, value in GFX1100.items() if name not in _NEW} | {
    "simd_count": 160, "array_count": 8, "cu_per_simd_array": 10, "gfx_target_version": 100300,
    "device_id": 0x73BF, "num_sdma_engines": 4, "num_sdma_queues_per_engine": 8,
}  # fmt: skip
"""As Linux 6.1 prints it: without XCCs and save areas."""
GFX942 = GFX1100 | {
    "simd_count": 1216, "caches_count": 626, "io_links_count": 2, "max_waves_per_simd": 8,
    "wave_front_size": 64, "array_count": 32, "simd_arrays_per_engine": 1,
    "cu_per_simd_array": 10, "simd_per_cu": 4, "gfx_target_version": 90402, "device_id": 29857,
    "location_id": 18176, "hive_id": 10631624818852212319, "num_sdma_engines": 2,
    "num_sdma_xgmi_engines": 14, "num_sdma_queues_per_engine": 8, "num_cp_queues": 24,
    "cwsr_size": 0x1621000, "ctl_stack_size": 0x3000, "max_engine_clk_fcompute": 2100,
    "fw_version": 166, "capability": 746037888, "debug_prop": 1511, "sdma_fw_version": 22,
    "num_xcc": 8,
}  # fmt: skip
GFX950 = GFX942 | {
    "simd_count": 1024, "lds_size_in_kb": 160, "gfx_target_version": 90500,
    "device_id": 0x75A0, "cwsr_size": 0, "ctl_stack_size": 0,
}  # fmt: skip
GFX942_PARTITION = GFX942 | {
    "simd_count": 152, "array_count": 4, "num_sdma_xgmi_engines": 0, "num_xcc": 1,
}  # fmt: skip
"""One of eight (CPX)."""
GFX1036 = GFX1100 | {
    "simd_count": 4, "array_count": 1, "simd_arrays_per_engine": 1, "cu_per_simd_array": 2,
    "gfx_target_version": 100306, "device_id": 0x164E, "location_id": 0x1100,
    "drm_render_minor": 129, "num_sdma_engines": 1, "num_sdma_queues_per_engine": 2,
    "cwsr_size": 0, "ctl_stack_size": 0,
}  # fmt: skip
"""The small GPU in a desktop processor, which is not supported."""

GFX1151 = GFX1100 | {
    "simd_count": 80, "array_count": 4, "cu_per_simd_array": 10, "gfx_target_version": 110501,
    "device_id": 0x1586, "location_id": 0xC500, "drm_render_minor": 129, "num_sdma_engines": 1,
    "cwsr_size": 0, "ctl_stack_size": 0,
}  # fmt: skip
GFX1150 = GFX1151 | {
    "simd_count": 32, "array_count": 2, "gfx_target_version": 110500, "device_id": 0x150E,
}  # fmt: skip
GFX1103 = GFX1151 | {
    "simd_count": 24, "array_count": 2, "gfx_target_version": 110003, "device_id": 0x15BF,
}  # fmt: skip
GFX90A = GFX942 | {
    "simd_count": 416, "array_count": 8, "gfx_target_version": 90010, "device_id": 0x740C,
    "num_sdma_xgmi_engines": 3, "num_xcc": 1, "cwsr_size": 0, "ctl_stack_size": 0,
}  # fmt: skip
"""One die of an MI250."""

IP = {
    110501: {11: [(11, 5, 1)], 42: [(6, 1, 1)]},
    110500: {11: [(11, 5, 0)], 42: [(6, 1, 0)]},
    110003: {11: [(11, 0, 1)], 42: [(6, 0, 1)]},
    90010: {11: [(9, 4, 2)], 42: [(4, 4, 0)] * 5},
    110000: {11: [(11, 0, 0)], 42: [(6, 0, 0)] * 2, 108: [(4, 3, 0)], 40: [(6, 0, 0)]},
    110001: {11: [(11, 0, 3)], 42: [(6, 0, 3)] * 2},
    110002: {11: [(11, 0, 2)], 42: [(6, 0, 2)] * 2},
    120001: {11: [(12, 0, 1)], 42: [(7, 0, 1)] * 2, 108: [(6, 3, 1)]},
    120000: {11: [(12, 0, 0)], 42: [(7, 0, 0)] * 2},
    100300: {11: [(10, 3, 0)], 42: [(5, 2, 0)]},
    90402: {11: [(9, 4, 3)] * 8, 42: [(4, 4, 2)] * 16, 108: [(7, 9, 0)]},
    90500: {11: [(9, 5, 0)] * 8, 42: [(4, 4, 4)] * 16},
    100306: {11: [(10, 3, 6)], 42: [(5, 2, 6)]},
}
"""gfx_target_version -> hardware id -> the versions of its instances."""


def text(properties: Mapping[str, int]) -> bytes:
    return "".join(f"{name} {value}\n" for name, value in properties.items()).encode()


def bank(heap_type: int, nbytes: int) -> bytes:
    return text(
        {
            "heap_type": heap_type,
            "size_in_bytes": nbytes,
            "flags": 0,
            "width": 384,
            "mem_clk_max": 1249,
        }
    )


def link(kind: int, start: int, end: int, flags: int = 1) -> bytes:
    return text({
        "type": kind, "version_major": 0, "version_minor": 0, "node_from": start,
        "node_to": end, "weight": 20, "min_latency": 0, "max_latency": 0, "min_bandwidth": 312,
        "max_bandwidth": 32000, "recommended_transfer_size": 0,
        "recommended_sdma_engine_id_mask": 0, "flags": flags,
    })  # fmt: skip


CACHE = (
    b"processor_id_low 2147488032\nlevel 1\nsize 32\ncache_line_size 128\ncache_lines_per_tag 1\n"
    b"association 0\nlatency 0\ntype 9\nsibling_map 1,1,0,0,0,0,0,0\n"
)


def ip_files(device: str, blocks: Mapping[int, list[tuple[int, int, int]]]) -> Files:
    """amdgpu's sysfs files of a discovery table."""
    files: Files = {f"{device}/ip_discovery/die/0/num_ips": b"50\n"}
    for hw_id, versions in blocks.items():
        for instance, version in enumerate(versions):
            folder = f"{device}/ip_discovery/die/0/{hw_id}/{instance}"
            numbers = dict(zip(("major", "minor", "revision"), version, strict=True))
            numbers |= {"hw_id": hw_id, "num_instance": instance, "num_base_addresses": 2}
            files |= {f"{folder}/{name}": b"%d\n" % value for name, value in numbers.items()}
            files[f"{folder}/harvest"] = b"0x0\n"
            files[f"{folder}/base_addr"] = b"0x00001260\n0x0000A000\n"
    files[f"{device}/ip_discovery/die/0/GC"] = "11"
    return files


def node_files(index: int, gpu_id: int, properties: Mapping[str, int], nbytes: int) -> Files:
    """One node of the topology with one bank of memory, a link to node 0 and a cache."""
    folder = f"{ROOT}/nodes/{index}"
    return {
        f"{folder}/gpu_id": b"%d\n" % gpu_id,
        f"{folder}/name": b"ip discovery\n" if gpu_id else b"\n",
        f"{folder}/properties": text(properties),
        f"{folder}/mem_banks/0/properties": bank(1 if gpu_id else 0, nbytes),
        f"{folder}/io_links/0/properties": link(2, index, 1 - min(index, 1)),
        f"{folder}/caches/0/properties": CACHE,
    }


def device_files(properties: Mapping[str, int]) -> Files:
    """The render node of a GPU, its discovery table and its firmware versions."""
    minor = properties["drm_render_minor"]
    device = f"/sys/class/drm/renderD{minor}/device"
    return {
        f"/dev/dri/renderD{minor}": b"",
        f"{device}/fw_version/mec_fw_version": b"0x0000085c\n",
        f"{device}/fw_version/rlc_fw_version": b"0x00000074\n",
        f"{device}/fw_version/ce_fw_version": b"0x00000000\n",
        **ip_files(device, IP[properties["gfx_target_version"]]),
    }


def machine(*gpus: Mapping[str, int], vram_bytes: int = 24 << 30) -> Files:
    """A machine with one processor node and these GPUs, /dev/kfd included."""
    files: Files = {
        "/dev/kfd": b"",
        f"{ROOT}/generation_id": b"2\n",
        f"{ROOT}/system_properties": b"platform_oem 0\nplatform_id 0\nplatform_rev 1\n",
        **node_files(0, 0, CPU, 64 << 30),
    }
    for index, properties in enumerate(gpus, 1):
        files |= node_files(index, 0x1000 + 0x111 * index, properties, vram_bytes)
        files |= device_files(properties)
    return files


def second(properties: Mapping[str, int], number: int = 1) -> dict[str, int]:
    """A second card of the same kind, in another slot."""
    moved = {
        "location_id": properties["location_id"] + 0x300 * number,
        "drm_render_minor": properties["drm_render_minor"] + 8 * number,
        "unique_id": properties["unique_id"] - number,
    }
    return dict(properties) | moved
