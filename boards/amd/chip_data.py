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


# src: libdrm data/amdgpu.ids (device ids), amdgpu_discovery.c (IP versions), amdkfd/kfd_queue.c
# (save areas), the chips' data sheets (CUs and how they are arranged)
NUMBERS = {
    "gfx1100": Numbers(
        family="gfx11", target_version=110000, device_id=0x744C, cus=96, arrays=12,
        arrays_per_engine=2, cus_per_array=8, gc=(11, 0, 0), sdma=(6, 0, 0), mmhub=(3, 0, 0),
        nbif=(4, 3, 0), mp=(13, 0, 0), save_vgpr_bytes=0x60000,
    ),
    "gfx1101": Numbers(
        family="gfx11", target_version=110001, device_id=0x747E, cus=60, arrays=6,
        arrays_per_engine=2, cus_per_array=10, gc=(11, 0, 3), sdma=(6, 0, 3), mmhub=(3, 0, 0),
        nbif=(4, 3, 0), mp=(13, 0, 10), save_vgpr_bytes=0x60000,
    ),
    "gfx1102": Numbers(
        family="gfx11", target_version=110002, device_id=0x7480, cus=32, arrays=4,
        arrays_per_engine=2, cus_per_array=8, gc=(11, 0, 2), sdma=(6, 0, 2), mmhub=(3, 0, 2),
        nbif=(4, 3, 0), mp=(13, 0, 7),
    ),
    # Processors' GPUs. src: amdgpu_discovery.c, gmc_v11_0.c, kfd_device.c; CUs: AMD's data sheets
    "gfx1103": Numbers(
        family="gfx11", target_version=110003, device_id=0x15BF, cus=12, arrays=2,
        arrays_per_engine=2, cus_per_array=6, gc=(11, 0, 1), sdma=(6, 0, 1), mmhub=(3, 0, 1),
        nbif=(7, 7, 0), mp=(13, 0, 4), sdma_engines=1, carveout_mib=512,
    ),
    "gfx1150": Numbers(
        family="gfx11", target_version=110500, device_id=0x150E, cus=16, arrays=2,
        arrays_per_engine=2, cus_per_array=8, gc=(11, 5, 0), sdma=(6, 1, 0), mmhub=(3, 3, 0),
        nbif=(7, 11, 0), mp=(14, 0, 0), sdma_engines=1, carveout_mib=512,
    ),
    "gfx1151": Numbers(
        family="gfx11", target_version=110501, device_id=0x1586, cus=40, arrays=4,
        arrays_per_engine=2, cus_per_array=10, gc=(11, 5, 1), sdma=(6, 1, 1), mmhub=(3, 3, 1),
        nbif=(7, 11, 1), mp=(14, 0, 1), sdma_engines=1, save_vgpr_bytes=0x60000, carveout_mib=512,
    ),
    "gfx1200": Numbers(
        family="gfx12", target_version=120000, device_id=0x7590, cus=32, arrays=4,
        arrays_per_engine=2, cus_per_array=8, gc=(12, 0, 0), sdma=(7, 0, 0), mmhub=(4, 1, 0),
        nbif=(6, 3, 1), mp=(14, 0, 2), save_vgpr_bytes=0x60000,
    ),
    "gfx1201": Numbers(
        family="gfx12", target_version=120001, device_id=0x7550, cus=64, arrays=8,
        arrays_per_engine=2, cus_per_array=8, gc=(12, 0, 1), sdma=(7, 0, 1), mmhub=(4, 1, 0),
        nbif=(6, 3, 1), mp=(14, 0, 3), save_vgpr_bytes=0x60000,
    ),
    "gfx1030": Numbers(
        family="gfx10", target_version=100300, device_id=0x73BF, cus=80, arrays=8,
        arrays_per_engine=2, cus_per_array=10, gc=(10, 3, 0), sdma=(5, 2, 0), mmhub=(2, 1, 0),
        nbif=(3, 3, 0), mp=(11, 0, 7), sdma_engines=4, sdma_queues=8,
    ),
    # MMHUB of the next two is taken for that of gfx1030: no source names it.
    "gfx1031": Numbers(
        family="gfx10", target_version=100301, device_id=0x73DF, cus=40, arrays=4,
        arrays_per_engine=2, cus_per_array=10, gc=(10, 3, 2), sdma=(5, 2, 2), mmhub=(2, 1, 0),
        nbif=(3, 3, 1), mp=(11, 0, 11), sdma_queues=8,
    ),
    "gfx1032": Numbers(
        family="gfx10", target_version=100302, device_id=0x73FF, cus=32, arrays=4,
        arrays_per_engine=2, cus_per_array=8, gc=(10, 3, 4), sdma=(5, 2, 4), mmhub=(2, 1, 0),
        nbif=(3, 3, 2), mp=(11, 0, 12), sdma_queues=8,
    ),
    # One die of an MI250. src: amdgpu_discovery.c, CHIP_ALDEBARAN; CUs: AMD's data sheet
    "gfx90a": Numbers(
        family="gfx9", target_version=90010, device_id=0x740C, cus=104, arrays=8,
        arrays_per_engine=1, cus_per_array=13, gc=(9, 4, 2), sdma=(4, 4, 0), mmhub=(9, 4, 2),
        nbif=(7, 4, 4), mp=(13, 0, 2), sdma_xgmi_engines=3, sdma_queues=8, simds_per_cu=4,
        lanes=64, save_vgpr_bytes=0x80000,
    ),
    "gfx942": Numbers(
        family="gfx9", target_version=90402, device_id=0x74A1, cus=304, arrays=32,
        arrays_per_engine=1, cus_per_array=10, gc=(9, 4, 3), sdma=(4, 4, 2), mmhub=(1, 8, 0),
        nbif=(7, 9, 0), mp=(13, 0, 6), sdma_xgmi_engines=14, sdma_queues=8, simds_per_cu=4,
        lanes=64, xccs=8, save_vgpr_bytes=0x80000,
    ),
    "gfx950": Numbers(
        family="gfx9", target_version=90500, device_id=0x75A0, cus=256, arrays=32,
        arrays_per_engine=1, cus_per_array=8, gc=(9, 5, 0), sdma=(4, 4, 4), mmhub=(1, 8, 0),
        nbif=(7, 9, 0), mp=(13, 0, 12), sdma_xgmi_engines=14, sdma_queues=8, simds_per_cu=4,
        lanes=64, xccs=8, lds_kib=160, save_vgpr_bytes=0x80000,
    ),
}  # fmt: skip
"""One record a chip."""
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
