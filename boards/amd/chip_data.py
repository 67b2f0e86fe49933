"""Numbers of each chip, as its data sheet and its sysfs node give them."""

from __future__ import annotations

from dataclasses import dataclass

from boards.amd.cp.engine_types import Version


@dataclass(frozen=True, slots=True)
class Numbers:
    """What differs between chips; counts are of the whole chip, all XCCs together."""

    family: str
    target_version: int
    device_id: int
    cus: int
    arrays: int
    arrays_per_engine: int
    cus_per_array: int
    gc: Version
    sdma: Version
    mmhub: Version
    nbif: Version
    mp: Version
    sdma_engines: int = 2
    sdma_xgmi_engines: int = 0
    sdma_queues: int = 6
    """Eight of an engine, less the two that the graphics driver keeps on gfx11 and later.

    src: amdkfd/kfd_device.c num_reserved_sdma_queues_per_engine
    """
    simds_per_cu: int = 2
    lanes: int = 32
    xccs: int = 1
    lds_kib: int = 64
    save_vgpr_bytes: int = 0x40000
    """Of one CU. src: amdkfd/kfd_queue.c kfd_get_vgpr_size_per_cu()"""
    carveout_mib: int = 0
    """Of a processor's GPU (APU): what firmware keeps for it; a card has none."""


# src: notes section 3 (device ids, IP versions), 1.3 (CUs, registers), the chips' data sheets
CHIPS = {
    "gfx1100": Numbers(
        "gfx11", 110000, 0x744C, 96, 12, 2, 8,
        (11, 0, 0), (6, 0, 0), (3, 0, 0), (4, 3, 0), (13, 0, 0), save_vgpr_bytes=0x60000,
    ),
    "gfx1101": Numbers(
        "gfx11", 110001, 0x747E, 60, 6, 2, 10,
        (11, 0, 3), (6, 0, 3), (3, 0, 0), (4, 3, 0), (13, 0, 10), save_vgpr_bytes=0x60000,
    ),
    "gfx1102": Numbers(
        "gfx11", 110002, 0x7480, 32, 4, 2, 8,
        (11, 0, 2), (6, 0, 2), (3, 0, 2), (4, 3, 0), (13, 0, 7),
    ),
    # Processors' GPUs. src: amdgpu_discovery.c, gmc_v11_0.c, kfd_device.c; CUs: AMD's data sheets
    "gfx1103": Numbers(
        "gfx11", 110003, 0x15BF, 12, 2, 2, 6,
        (11, 0, 1), (6, 0, 1), (3, 0, 1), (7, 7, 0), (13, 0, 4), sdma_engines=1, carveout_mib=512,
    ),
    "gfx1150": Numbers(
        "gfx11", 110500, 0x150E, 16, 2, 2, 8,
        (11, 5, 0), (6, 1, 0), (3, 3, 0), (7, 11, 0), (14, 0, 0), sdma_engines=1, carveout_mib=512,
    ),
    "gfx1151": Numbers(
        "gfx11", 110501, 0x1586, 40, 4, 2, 10,
        (11, 5, 1), (6, 1, 1), (3, 3, 1), (7, 11, 1), (14, 0, 1), sdma_engines=1, carveout_mib=512,
        save_vgpr_bytes=0x60000,
    ),
    "gfx1200": Numbers(
        "gfx12", 120000, 0x7590, 32, 4, 2, 8,
        (12, 0, 0), (7, 0, 0), (4, 1, 0), (6, 3, 1), (14, 0, 2), save_vgpr_bytes=0x60000,
    ),
    "gfx1201": Numbers(
        "gfx12", 120001, 0x7550, 64, 8, 2, 8,
        (12, 0, 1), (7, 0, 1), (4, 1, 0), (6, 3, 1), (14, 0, 3), save_vgpr_bytes=0x60000,
    ),
    "gfx1030": Numbers(
        "gfx10", 100300, 0x73BF, 80, 8, 2, 10,
        (10, 3, 0), (5, 2, 0), (2, 1, 0), (3, 3, 0), (11, 0, 7), sdma_engines=4, sdma_queues=8,
    ),
    # MMHUB of the next two is taken for that of gfx1030: no source names it.
    "gfx1031": Numbers(
        "gfx10", 100301, 0x73DF, 40, 4, 2, 10,
        (10, 3, 2), (5, 2, 2), (2, 1, 0), (3, 3, 1), (11, 0, 11), sdma_queues=8,
    ),
    "gfx1032": Numbers(
        "gfx10", 100302, 0x73FF, 32, 4, 2, 8,
        (10, 3, 4), (5, 2, 4), (2, 1, 0), (3, 3, 2), (11, 0, 12), sdma_queues=8,
    ),
    # One die of an MI250. src: amdgpu_discovery.c, CHIP_ALDEBARAN; CUs: AMD's data sheet
    "gfx90a": Numbers(
        "gfx9", 90010, 0x740C, 104, 8, 1, 13,
        (9, 4, 2), (4, 4, 0), (9, 4, 2), (7, 4, 4), (13, 0, 2), sdma_xgmi_engines=3,
        sdma_queues=8, simds_per_cu=4, lanes=64, save_vgpr_bytes=0x80000,
    ),
    "gfx942": Numbers(
        "gfx9", 90402, 0x74A1, 304, 32, 1, 10,
        (9, 4, 3), (4, 4, 2), (1, 8, 0), (7, 9, 0), (13, 0, 6), sdma_xgmi_engines=14,
        sdma_queues=8, simds_per_cu=4, lanes=64, xccs=8, save_vgpr_bytes=0x80000,
    ),
    "gfx950": Numbers(
        "gfx9", 90500, 0x75A0, 256, 32, 1, 8,
        (9, 5, 0), (4, 4, 4), (1, 8, 0), (7, 9, 0), (13, 0, 12), sdma_xgmi_engines=14,
        sdma_queues=8, simds_per_cu=4, lanes=64, xccs=8, lds_kib=160, save_vgpr_bytes=0x80000,
    ),
}  # fmt: skip
HW_IDS = {
    # src: amdgpu/amdgpu_discovery.c hw_id_map, include/soc15_hw_ip.h
    "MP1": 1, "GC": 11, "MMHUB": 34, "OSSSYS": 40, "HDP": 41, "SDMA0": 42, "NBIF": 108, "MP0": 255,
}  # fmt: skip

DRM_IDS = {
    # by GC: (family, external revision of revision 0)
    # src: Linux 6.12, amdgpu_drm.h AMDGPU_FAMILY_*, amdgpu_discovery.c; soc15.c, nv.c, soc21.c,
    # soc24.c external_rev_id; 9.5.0 as since Linux 6.14
    (9, 4, 2): (141, 0x3C), (9, 4, 3): (141, 0x46), (9, 5, 0): (141, 0x50),
    (10, 3, 0): (143, 0x28), (10, 3, 2): (143, 0x32), (10, 3, 4): (143, 0x3C),
    (11, 0, 0): (145, 0x01), (11, 0, 2): (145, 0x10), (11, 0, 3): (145, 0x20),
    (11, 0, 1): (148, 0x01), (11, 5, 0): (150, 0x01), (11, 5, 1): (150, 0xC1),
    (12, 0, 0): (152, 0x40), (12, 0, 1): (152, 0x50),
}  # fmt: skip
GB_ADDR_CONFIG = {"gfx9": 0x2A114042, "gfx10": 0x444, "gfx11": 0x545, "gfx12": 0x404}
"""Of each family's largest chip; its smaller ones have fewer pipes, which no source gives.

src: gfx_v9_4_3.c GOLDEN_GB_ADDR_CONFIG; gc_11_0_0_default.h; Mesa ac_fake_hw_db.h (16 pipes)
"""
VRAM_GDDR6, VRAM_HBM, VRAM_LPDDR5 = 9, 6, 12
"""src: amdgpu_drm.h AMDGPU_VRAM_TYPE_*"""
MEMORY_BITS, MEMORY_MHZ, L2_KIB, RLC_VERSION = 384, 1249, 6144, 0x74
"""What every board reports, whichever its chip."""
