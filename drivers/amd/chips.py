"""The AMD chips this stack speaks to, as data. Code asks the data, never a chip's name.

A `Family` is what one generation shares; a `Chip` adds what differs between its members.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from drivers.base.errors import MalformedInput, Unsupported

Version = tuple[int, int, int]

KIB = 1 << 10
PAGE_BYTES = 4 * KIB
EOP_BYTES = PAGE_BYTES
"""The end-of-pipe buffer of a compute queue. # src: kfd_queue.c (0x8000 on Tonga alone)"""
DOORBELL_BYTES = 8
"""One queue's doorbell since gfx9. # src: kfd_device.c kfd_device_info_init()"""
NS_PER_TICK = 10
"""What queues write counts at 100 MHz. # src: the reference clock of gfx9 to gfx12 in amdgpu"""
MANIFEST = "amd"
"""Of firmware, in firmware_manifests."""
BUS_ADDRESS_BITS = 44
"""Of the addresses that a GPU's DMA has.

# src: amdgpu gmc_v11_0.c, gmc_v12_0.c, gmc_v9_0.c sw_init: DMA_BIT_MASK(44), or 48
"""
MAX_WORKGROUP_LANES = 1024
"""# src: LLVM AMDGPUUsage, amdgpu-flat-work-group-size"""


@dataclass(frozen=True, slots=True)
class Family:
    """What the chips of one generation have in common; their packets are in `queues/`."""

    name: str
    wave_lanes: int
    """Lanes of the wave that compilers choose by default."""
    simd_per_cu: int
    queue: str
    """What the compute queue reads by default: "PM4", or "AQL" where several XCCs share it."""
    scratch_unit_bytes: int
    """Unit of COMPUTE_TMPRING_SIZE.WAVESIZE. # src: LLVM AMDGPUUsage; Mesa ac_nir, gfx11"""
    wavesize_bits: int
    """Width of COMPUTE_TMPRING_SIZE.WAVESIZE. # src: gc_*_sh_mask.h"""
    waves_per_engine: bool
    """COMPUTE_TMPRING_SIZE.WAVES counts waves of one shader engine, not of the XCC.

    # src: ROCR amd_aql_queue.cpp FillComputeTmpRingSize_Gfx11()
    """
    architected_scratch: bool
    """Scratch base comes from COMPUTE_DISPATCH_SCRATCH_BASE, not from user SGPRs."""
    packed_work_items: bool
    """VGPR0 holds x | y << 10 | z << 20, instead of v0, v1, v2."""
    workgroup_ids_in_ttmp: bool
    """Workgroup ids come in ttmp9 and ttmp7 instead of SGPRs."""
    matrix: str
    """Matrix instructions: "wmma", "mfma" or ""."""
    save_waves_per_cu: int
    """Waves a save area has room for. # src: kfd_queue.c kfd_queue_ctx_save_restore_size()"""
    save_waves_per_engine: int
    """The same limit for one shader engine; 0 where there is none."""
    ctl_stack_bytes_per_wave: int
    ctl_stack_limit_bytes: int
    """What the hardware can address of the control stack; 0 without a limit."""


CDNA3 = Family(
    name="CDNA3", wave_lanes=64, simd_per_cu=4, queue="AQL",
    scratch_unit_bytes=1024, wavesize_bits=13, waves_per_engine=False, architected_scratch=True,
    packed_work_items=True, workgroup_ids_in_ttmp=False, matrix="mfma",
    save_waves_per_cu=40, save_waves_per_engine=512, ctl_stack_bytes_per_wave=8,
    ctl_stack_limit_bytes=0,
)  # fmt: skip
CDNA4 = replace(CDNA3, name="CDNA4")
CDNA2 = replace(CDNA3, name="CDNA2", queue="PM4", architected_scratch=False)
"""# src: LLVM GCNSubtarget.h hasArchitectedFlatScratch(), gfx940 and later; one XCC a node"""
RDNA2 = Family(
    name="RDNA2", wave_lanes=32, simd_per_cu=2, queue="PM4",
    scratch_unit_bytes=1024, wavesize_bits=13, waves_per_engine=False, architected_scratch=False,
    packed_work_items=False, workgroup_ids_in_ttmp=False, matrix="",
    save_waves_per_cu=32, save_waves_per_engine=0, ctl_stack_bytes_per_wave=12,
    ctl_stack_limit_bytes=0x7000,
)  # fmt: skip
RDNA3 = Family(
    name="RDNA3", wave_lanes=32, simd_per_cu=2, queue="PM4",
    scratch_unit_bytes=256, wavesize_bits=15, waves_per_engine=True, architected_scratch=True,
    packed_work_items=True, workgroup_ids_in_ttmp=False, matrix="wmma",
    save_waves_per_cu=32, save_waves_per_engine=0, ctl_stack_bytes_per_wave=12,
    ctl_stack_limit_bytes=0,
)  # fmt: skip
RDNA4 = Family(
    name="RDNA4", wave_lanes=32, simd_per_cu=2, queue="PM4",
    scratch_unit_bytes=256, wavesize_bits=18, waves_per_engine=True, architected_scratch=True,
    packed_work_items=True, workgroup_ids_in_ttmp=True, matrix="wmma",
    save_waves_per_cu=32, save_waves_per_engine=0, ctl_stack_bytes_per_wave=12,
    ctl_stack_limit_bytes=0,
)  # fmt: skip
RDNA35 = replace(RDNA3, name="RDNA3.5")
CDNA4_LDS_BYTES = 160 * KIB


@dataclass(frozen=True, slots=True)
class Chip:
    """One chip. `name` is also LLVM's target."""

    name: str
    family: Family
    target_version: int
    """`gfx_target_version` of KFD: 110000 is 11.0.0."""
    gc: frozenset[Version]
    """IP discovery versions of the graphics core. # src: kfd_device.c kgd2kfd_probe()"""
    sdma: frozenset[Version]
    """IP discovery versions of its copy engines. # src: amdgpu_discovery.c"""
    vgprs_per_simd: int
    """Physical registers of one SIMD, each one wave wide. # src: LLVM getTotalNumVGPRs()"""
    save_vgpr_bytes_per_cu: int
    """# src: kfd_queue.c kfd_get_vgpr_size_per_cu()"""
    elf_mach: int
    """EF_AMDGPU_MACH of its code objects. # src: LLVM BinaryFormat/ELF.h"""
    product: str
    lds_granule_bytes: int = 512
    """Unit of COMPUTE_PGM_RSRC2.LDS_SIZE. # src: LLVM AMDGPUUsage, GRANULATED_LDS_SIZE"""
    lds_bytes: int = 64 * KIB
    """Local memory of a compute unit, all of which one workgroup may have."""
    privileged: bool = False
    """PM4 launches set RSRC1.PRIV, which the wave save of GC 11.0.0 to 11.0.3 needs.

    # src: kfd_debug.h kfd_dbg_has_cwsr_workaround(); tinygrad ops_amd.py sets it
    """
    save_area_fixed: bool = False
    """Until December 2025 Linux computed, and insisted on, too small a save area for it.

    # src: kfd_queue.c, "drm/amdkfd: bump minimum vgpr size for gfx1151"
    """
    integrated: bool = False
    """Part of a processor (APU): its memory is the machine's."""


def _versions(*versions: Version) -> frozenset[Version]:
    return frozenset(versions)


CHIPS: dict[int, Chip] = {
    chip.target_version: chip
    for chip in (
        Chip("gfx90a", CDNA2, 90010, _versions((9, 4, 2)), _versions((4, 4, 0)),
             512, 0x80000, 0x3F, "Instinct MI210, MI250"),
        Chip("gfx942", CDNA3, 90402, _versions((9, 4, 3), (9, 4, 4)),
             _versions((4, 4, 2), (4, 4, 5)), 512, 0x80000, 0x4C, "Instinct MI300"),
        Chip("gfx950", CDNA4, 90500, _versions((9, 5, 0)), _versions((4, 4, 4)),
             512, 0x80000, 0x4F, "Instinct MI350", 1280, CDNA4_LDS_BYTES),
        Chip("gfx1030", RDNA2, 100300, _versions((10, 3, 0)), _versions((5, 2, 0)),
             1024, 0x40000, 0x36, "Radeon RX 6800, 6900 (Navi 21)"),
        Chip("gfx1031", RDNA2, 100301, _versions((10, 3, 2)), _versions((5, 2, 2)),
             1024, 0x40000, 0x37, "Radeon RX 6700 (Navi 22)"),
        Chip("gfx1032", RDNA2, 100302, _versions((10, 3, 4)), _versions((5, 2, 4)),
             1024, 0x40000, 0x38, "Radeon RX 6600 (Navi 23)"),
        Chip("gfx1100", RDNA3, 110000, _versions((11, 0, 0)), _versions((6, 0, 0)),
             1536, 0x60000, 0x41, "Radeon RX 7900 (Navi 31)", privileged=True),
        Chip("gfx1101", RDNA3, 110001, _versions((11, 0, 3)), _versions((6, 0, 3)),
             1536, 0x60000, 0x46, "Radeon RX 7700, 7800 (Navi 32)", privileged=True),
        Chip("gfx1102", RDNA3, 110002, _versions((11, 0, 2)), _versions((6, 0, 2)),
             1024, 0x40000, 0x47, "Radeon RX 7600 (Navi 33)", privileged=True),
        Chip("gfx1103", RDNA3, 110003, _versions((11, 0, 1), (11, 0, 4)), _versions((6, 0, 1)),
             1024, 0x40000, 0x44, "Radeon 780M, 760M (Phoenix)", privileged=True, integrated=True),
        Chip("gfx1150", RDNA35, 110500, _versions((11, 5, 0)), _versions((6, 1, 0)),
             1024, 0x40000, 0x43, "Radeon 890M, 880M (Strix Point)", integrated=True),
        Chip("gfx1151", RDNA35, 110501, _versions((11, 5, 1)), _versions((6, 1, 1)),
             1536, 0x60000, 0x4A, "Radeon 8060S, 8050S (Strix Halo)",
             save_area_fixed=True, integrated=True),
        Chip("gfx1200", RDNA4, 120000, _versions((12, 0, 0)), _versions((7, 0, 0)),
             1536, 0x60000, 0x48, "Radeon RX 9060 (Navi 44)"),
        Chip("gfx1201", RDNA4, 120001, _versions((12, 0, 1)), _versions((7, 0, 1)),
             1536, 0x60000, 0x4E, "Radeon RX 9070 (Navi 48)"),
    )
}  # fmt: skip
"""Every supported chip by its `gfx_target_version`."""
NAMES: tuple[str, ...] = tuple(chip.name for chip in CHIPS.values())

_MAJOR, _MINOR = 10000, 100
_STEPPING_LIMIT = 16
_MAJOR_LIMIT = 100


def target_name(gfx_target_version: int) -> str:
    """LLVM's name for a version: 90402 is gfx942, 120001 is gfx1201.

    Raises: MalformedInput for a number that is no version.
    """
    major, rest = divmod(gfx_target_version, _MAJOR)
    minor, stepping = divmod(rest, _MINOR)
    if not (0 < major < _MAJOR_LIMIT and minor < _STEPPING_LIMIT and stepping < _STEPPING_LIMIT):
        raise MalformedInput(f"gfx_target_version {gfx_target_version} is no version of a chip")
    return f"gfx{major}{minor:x}{stepping:x}"


def chip_of(gfx_target_version: int) -> Chip:
    """The chip of a KFD node. Raises: Unsupported, with the list of those that are."""
    chip = CHIPS.get(gfx_target_version)
    if chip is None:
        name = target_name(gfx_target_version)
        raise Unsupported(
            f"{name} (gfx_target_version {gfx_target_version}) is not supported",
            hint=f"Chips are {', '.join(NAMES)}",
        )
    return chip
