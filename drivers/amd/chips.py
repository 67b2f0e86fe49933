"""The AMD chips this stack supports, as data. Code reads the data, never a chip's name.

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
"""Queues' time stamps count at 100 MHz. # src: the reference clock of gfx9 to gfx12 in amdgpu"""
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
class Bare:
    """What a chip adds when it is booted without its kernel driver."""

    device_ids: tuple[int, ...]
    """PCI device ids of AMD's that are this chip. # src: libdrm data/amdgpu.ids; pci.ids"""
    mmhub: Version
    nbif: Version
    mp: Version
    """Of the security processor (MP0) and of the power controller (MP1)."""
    osssys: Version
    hdp: Version
    """IP discovery versions, to read registers by name without a GPU; a GPU's own table is asked
    where there is one. # src: amdgpu_discovery.c, gmc_v{9,11,12}_0.c *_set_mmhub_funcs()"""


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
    bare: Bare | None = None
    """None: not booted over PCI; its kernel driver keeps it."""


def _versions(*versions: Version) -> frozenset[Version]:
    return frozenset(versions)


_BARE_942 = Bare(device_ids=(0x74A1,), mmhub=(1, 8, 0), nbif=(7, 9, 0), mp=(13, 0, 6),
                 osssys=(4, 4, 2), hdp=(4, 4, 2))  # fmt: skip
_NAVI_31 = (0x744C, 0x7448, 0x7449, 0x744A, 0x744B, 0x745E)
_NAVI_32 = (0x747E, 0x7470, 0x7460)
_NAVI_33 = (0x7480, 0x73F0, 0x7481, 0x7483, 0x7487, 0x7489, 0x748B, 0x7499, 0x749F)
"""Cards, workstations' cards and mobile GPUs of one die each; discovery's versions are checked.

# src: pci.ids of October 2026. MI300's and MI350's others are not here: of a package with fewer
# live dies (AIDs) than MI300X no register of a dead one may be touched; discovery lists all."""
_BARE_1100 = Bare(device_ids=_NAVI_31, mmhub=(3, 0, 0), nbif=(4, 3, 0), mp=(13, 0, 0),
                  osssys=(6, 0, 0), hdp=(6, 0, 0))  # fmt: skip
_BARE_1201 = Bare(device_ids=(0x7550, 0x7551), mmhub=(4, 1, 0), nbif=(6, 3, 1), mp=(14, 0, 3),
                  osssys=(7, 0, 0), hdp=(7, 0, 0))  # fmt: skip
CHIPS: dict[int, Chip] = {
    chip.target_version: chip
    for chip in (
        Chip("gfx90a", CDNA2, 90010, gc=_versions((9, 4, 2)), sdma=_versions((4, 4, 0)),
             elf_mach=0x3F, product="Instinct MI210, MI250",
             vgprs_per_simd=512, save_vgpr_bytes_per_cu=0x80000),
        Chip("gfx942", CDNA3, 90402, gc=_versions((9, 4, 3), (9, 4, 4)),
             sdma=_versions((4, 4, 2), (4, 4, 5)), elf_mach=0x4C, product="Instinct MI300",
             bare=_BARE_942,
             vgprs_per_simd=512, save_vgpr_bytes_per_cu=0x80000),
        Chip("gfx950", CDNA4, 90500, gc=_versions((9, 5, 0)), sdma=_versions((4, 4, 4)),
             elf_mach=0x4F, product="Instinct MI350", lds_granule_bytes=1280,
             lds_bytes=CDNA4_LDS_BYTES,
             vgprs_per_simd=512, save_vgpr_bytes_per_cu=0x80000),
        Chip("gfx1030", RDNA2, 100300, gc=_versions((10, 3, 0)), sdma=_versions((5, 2, 0)),
             elf_mach=0x36, product="Radeon RX 6800, 6900 (Navi 21)",
             vgprs_per_simd=1024, save_vgpr_bytes_per_cu=0x40000),
        Chip("gfx1031", RDNA2, 100301, gc=_versions((10, 3, 2)), sdma=_versions((5, 2, 2)),
             elf_mach=0x37, product="Radeon RX 6700 (Navi 22)",
             vgprs_per_simd=1024, save_vgpr_bytes_per_cu=0x40000),
        Chip("gfx1032", RDNA2, 100302, gc=_versions((10, 3, 4)), sdma=_versions((5, 2, 4)),
             elf_mach=0x38, product="Radeon RX 6600 (Navi 23)",
             vgprs_per_simd=1024, save_vgpr_bytes_per_cu=0x40000),
        Chip("gfx1100", RDNA3, 110000, gc=_versions((11, 0, 0)), sdma=_versions((6, 0, 0)),
             elf_mach=0x41, product="Radeon RX 7900 (Navi 31)", privileged=True,
             bare=_BARE_1100,
             vgprs_per_simd=1536, save_vgpr_bytes_per_cu=0x60000),
        Chip("gfx1101", RDNA3, 110001, gc=_versions((11, 0, 3)), sdma=_versions((6, 0, 3)),
             elf_mach=0x46, product="Radeon RX 7700, 7800, PRO W7700 (Navi 32)", privileged=True,
             bare=replace(_BARE_1100, device_ids=_NAVI_32, mp=(13, 0, 10)),
             vgprs_per_simd=1536, save_vgpr_bytes_per_cu=0x60000),
        Chip("gfx1102", RDNA3, 110002, gc=_versions((11, 0, 2)), sdma=_versions((6, 0, 2)),
             elf_mach=0x47, product="Radeon RX 7600 (Navi 33)", privileged=True,
             bare=replace(_BARE_1100, device_ids=_NAVI_33, mmhub=(3, 0, 2), mp=(13, 0, 7)),
             vgprs_per_simd=1024, save_vgpr_bytes_per_cu=0x40000),
        Chip("gfx1103", RDNA3, 110003, gc=_versions((11, 0, 1), (11, 0, 4)),
             sdma=_versions((6, 0, 1)), elf_mach=0x44, product="Radeon 780M, 760M (Phoenix)",
             privileged=True, integrated=True,
             vgprs_per_simd=1024, save_vgpr_bytes_per_cu=0x40000),
        Chip("gfx1150", RDNA35, 110500, gc=_versions((11, 5, 0)), sdma=_versions((6, 1, 0)),
             elf_mach=0x43, product="Radeon 890M, 880M (Strix Point)", integrated=True,
             vgprs_per_simd=1024, save_vgpr_bytes_per_cu=0x40000),
        Chip("gfx1151", RDNA35, 110501, gc=_versions((11, 5, 1)), sdma=_versions((6, 1, 1)),
             elf_mach=0x4A, product="Radeon 8060S, 8050S (Strix Halo)",
             save_area_fixed=True, integrated=True,
             vgprs_per_simd=1536, save_vgpr_bytes_per_cu=0x60000),
        Chip("gfx1200", RDNA4, 120000, gc=_versions((12, 0, 0)), sdma=_versions((7, 0, 0)),
             elf_mach=0x48, product="Radeon RX 9060 (Navi 44)",
             bare=replace(_BARE_1201, device_ids=(0x7590,), mp=(14, 0, 2)),
             vgprs_per_simd=1536, save_vgpr_bytes_per_cu=0x60000),
        Chip("gfx1201", RDNA4, 120001, gc=_versions((12, 0, 1)), sdma=_versions((7, 0, 1)),
             elf_mach=0x4E, product="Radeon RX 9070 (Navi 48)", bare=_BARE_1201,
             vgprs_per_simd=1536, save_vgpr_bytes_per_cu=0x60000),
    )
}  # fmt: skip
"""Every supported chip by its `gfx_target_version`."""
NAMES: tuple[str, ...] = tuple(chip.name for chip in CHIPS.values())

_MAJOR, _MINOR = 10000, 100
_STEPPING_LIMIT = 16
_MAJOR_LIMIT = 100


def chip_of_device(device: int) -> Chip | None:
    """The chip that may be booted of AMD's PCI device id; None for any other."""
    return next((one for one in CHIPS.values() if one.bare and device in one.bare.device_ids), None)


def target_name(gfx_target_version: int) -> str:
    """LLVM's name for a version: 90402 is gfx942, 120001 is gfx1201.

    Raises: MalformedInput for a number that is no version.
    """
    major, rest = divmod(gfx_target_version, _MAJOR)
    minor, stepping = divmod(rest, _MINOR)
    if not (0 < major < _MAJOR_LIMIT and minor < _STEPPING_LIMIT and stepping < _STEPPING_LIMIT):
        raise MalformedInput(f"gfx_target_version {gfx_target_version} is not a version of a chip")
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
