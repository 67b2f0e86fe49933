"""GPUs that there are boards of: classes, sizes, and what their launch descriptors look like.

src: open-gpu-kernel-modules 595.45.04, src/nvidia/generated/g_gpu_class_list.c (classes, engines);
sm versions: ctrl0080gr.h; GPCs, TPCs: NVIDIA's architecture papers of GA102, AD102, GH100, TU102,
GB202; shared memory: CUDA C Programming Guide, compute capabilities. Nothing was measured.
"""

from __future__ import annotations

from dataclasses import dataclass

NV01_ROOT, NV01_ROOT_NON_PRIV, NV01_ROOT_CLIENT = 0x0, 0x1, 0x41
NV01_DEVICE_0, NV20_SUBDEVICE_0 = 0x80, 0x2080
NV01_MEMORY_SYSTEM, NV01_MEMORY_LOCAL_USER, NV01_MEMORY_VIRTUAL = 0x3E, 0x40, 0x70
NV01_MEMORY_SYSTEM_OS_DESCRIPTOR = 0x71
FERMI_VASPACE_A, FERMI_CONTEXT_SHARE_A, KEPLER_CHANNEL_GROUP_A = 0x90F1, 0x9067, 0xA06C
GT200_DEBUGGER = 0x83DE
NV_CONFIDENTIAL_COMPUTE = 0xCB33
VOLTA_USERMODE_A, TURING_USERMODE_A, AMPERE_USERMODE_A = 0xC361, 0xC461, 0xC561
HOPPER_USERMODE_A, BLACKWELL_USERMODE_A = 0xC661, 0xC761
KEPLER_INLINE_TO_MEMORY_B, BLACKWELL_INLINE_TO_MEMORY_A = 0xA140, 0xCD40
_GENERAL = (
    NV01_DEVICE_0, NV20_SUBDEVICE_0, NV01_MEMORY_SYSTEM, NV01_MEMORY_LOCAL_USER,
    NV01_MEMORY_VIRTUAL, NV01_MEMORY_SYSTEM_OS_DESCRIPTOR, FERMI_VASPACE_A,
    FERMI_CONTEXT_SHARE_A, KEPLER_CHANNEL_GROUP_A, GT200_DEBUGGER,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NvChip:
    """One GPU as data."""

    name: str
    title: str
    """What RM calls the card."""
    device_id: int
    architecture: tuple[int, int]
    """NV_PMC_BOOT_42 architecture << 4, and implementation, as MC_GET_ARCH_INFO has them."""
    compute: int
    copy: int
    gpfifos: tuple[int, ...]
    usermodes: tuple[int, ...]
    inline: int
    qmd: str
    """Version of its launch descriptors."""
    qmd_bytes: int
    sm_version: int
    """As GR_GET_INFO has it."""
    sass_version: int
    gpcs: int
    tpcs: int
    """In each GPC."""
    warps: int
    """On each SM."""
    shared_bytes: int
    """That one block can have, the driver's own 1 KiB included."""
    shared_kib: tuple[int, ...]
    """Sizes that an SM's memory can be split at."""
    copies: int
    """Copy engines."""
    token_bit: int = 0
    """What is set in a work submit token besides runlist and channel."""

    @property
    def classes(self) -> tuple[int, ...]:
        """Everything that can be allocated here."""
        return (*_GENERAL, *self.usermodes, *self.gpfifos, self.compute, self.copy, self.inline)

    @property
    def hopper(self) -> bool:
        """Whether it has Hopper's front end, or a later one."""
        return self.compute >= HOPPER_COMPUTE_A


TURING_COMPUTE_A, AMPERE_COMPUTE_B, ADA_COMPUTE_A = 0xC5C0, 0xC7C0, 0xC9C0
HOPPER_COMPUTE_A, BLACKWELL_COMPUTE_B = 0xCBC0, 0xCEC0
_USER = (VOLTA_USERMODE_A, TURING_USERMODE_A, AMPERE_USERMODE_A)
CHIPS = {
    chip.name: chip
    for chip in (
        NvChip(
            name="ga102", title="NVIDIA GeForce RTX 3090", device_id=0x2204,
            architecture=(0x170, 2), compute=AMPERE_COMPUTE_B, copy=0xC7B5,
            gpfifos=(0xC46F, 0xC56F), usermodes=_USER, inline=KEPLER_INLINE_TO_MEMORY_B,
            qmd="03_00", qmd_bytes=256, sm_version=0x806, sass_version=0x86,
            gpcs=7, tpcs=6, warps=48, shared_bytes=100 << 10,
            shared_kib=(8, 16, 32, 64, 100), copies=5,
        ),
        NvChip(
            name="ad102", title="NVIDIA GeForce RTX 4090", device_id=0x2684,
            architecture=(0x190, 2), compute=ADA_COMPUTE_A, copy=0xC7B5,
            gpfifos=(0xC46F, 0xC56F), usermodes=_USER, inline=KEPLER_INLINE_TO_MEMORY_B,
            qmd="03_00", qmd_bytes=256, sm_version=0x809, sass_version=0x89,
            gpcs=12, tpcs=6, warps=48, shared_bytes=100 << 10,
            shared_kib=(8, 16, 32, 64, 100), copies=5,
        ),
        NvChip(
            name="gh100", title="NVIDIA H200", device_id=0x2335,
            architecture=(0x180, 0), compute=HOPPER_COMPUTE_A, copy=0xC8B5,
            gpfifos=(0xC46F, 0xC56F, 0xC86F), usermodes=(*_USER, HOPPER_USERMODE_A),
            inline=KEPLER_INLINE_TO_MEMORY_B,
            qmd="04_00", qmd_bytes=384, sm_version=0x900, sass_version=0x90,
            gpcs=8, tpcs=9, warps=64, shared_bytes=228 << 10,
            shared_kib=(8, 16, 32, 64, 100, 132, 164, 196, 228), copies=10,
        ),
        NvChip(
            name="gb202", title="NVIDIA GeForce RTX 5090", device_id=0x2B85,
            architecture=(0x1B0, 2), compute=BLACKWELL_COMPUTE_B, copy=0xCAB5,
            gpfifos=(0xC96F, 0xCA6F), usermodes=(HOPPER_USERMODE_A, BLACKWELL_USERMODE_A),
            inline=BLACKWELL_INLINE_TO_MEMORY_A,
            qmd="05_00", qmd_bytes=384, sm_version=0xA04, sass_version=0xA4,
            gpcs=12, tpcs=8, warps=48, shared_bytes=100 << 10,
            shared_kib=(8, 16, 32, 64, 100), copies=8, token_bit=1 << 30,
        ),
        NvChip(
            name="tu102", title="NVIDIA GeForce RTX 2080 Ti", device_id=0x1E07,
            architecture=(0x160, 2), compute=TURING_COMPUTE_A, copy=0xC5B5,
            gpfifos=(0xC46F,), usermodes=(VOLTA_USERMODE_A, TURING_USERMODE_A),
            inline=KEPLER_INLINE_TO_MEMORY_B,
            qmd="02_03", qmd_bytes=256, sm_version=0x705, sass_version=0x75,
            gpcs=6, tpcs=6, warps=32, shared_bytes=64 << 10, shared_kib=(32, 64), copies=5,
        ),
    )
}  # fmt: skip


def chip(name: str) -> NvChip:
    """One by its name. Raises: ValueError with those there are."""
    if name not in CHIPS:
        raise ValueError(f"no NVIDIA board {name!r}: there are {', '.join(CHIPS)}")
    return CHIPS[name]
