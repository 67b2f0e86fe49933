"""The AMD chips code is generated for, and their data in compilers and code objects.

An unknown CPU name ends the whole process inside LLVM, so every name is looked up here first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from drivers.amd.chips import CHIPS, Chip
from drivers.base.errors import Unsupported

TRIPLE: Final = "amdgcn-amd-amdhsa"
PAGE_BYTES: Final = 4096
"""A GPU's smallest page; data starts at a multiple of it, after the code."""
ALIGN_BYTES: Final = 16
"""Of a kernel's arrays, and of one lane's largest load.
# src: RDNA3 and CDNA3 documents, GLOBAL_LOAD_B128 and DS_LOAD_B128"""
CODE_OBJECT_VERSION: Final = 500
"""Module flag `amdhsa_code_object_version`. # src: LLVM AMDGPUUsage, code object V5"""

_WAVE64: Final = "wavefrontsize64"


@dataclass(frozen=True, slots=True)
class Generation:
    """What the chips of one generation share as targets of a compiler."""

    registers: str
    """Name of its register set in `queues.amd.registers`."""
    features: frozenset[str]
    """Feature names that may be passed to the compiler."""
    wave_lanes: tuple[int, ...]
    """Wave widths, the default first."""
    vgpr_granule: Mapping[int, int]
    """Wave width -> registers a step of RSRC1.vgprs stands for.
    # src: LLVM AMDGPUUsage, compute_pgm_rsrc1 GRANULATED_WORKITEM_VGPR_COUNT"""
    llvm_major: int
    """The first LLVM that knows all of its chips.

    # src: llvm/docs/ReleaseNotes 11, 13, 15, 18, 20; gfx1150 and gfx1151: GCNProcessors.td of 17
    """
    matrix: str = ""
    """Which matrix intrinsics it has: "wmma11", "wmma12", "mfma" or ""."""


_RDNA_FEATURES: Final = frozenset({_WAVE64, "cumode"})
_CDNA_FEATURES: Final = frozenset({"xnack", "sramecc", "tgsplit"})
_RDNA_GRANULE: Final = {32: 8, 64: 4}

GENERATIONS: Final[Mapping[str, Generation]] = {
    "RDNA2": Generation("gfx10", _RDNA_FEATURES, (32, 64), _RDNA_GRANULE, 11),
    "RDNA3": Generation("gfx11", _RDNA_FEATURES, (32, 64), _RDNA_GRANULE, 15, "wmma11"),
    "RDNA3.5": Generation("gfx11", _RDNA_FEATURES, (32, 64), _RDNA_GRANULE, 17, "wmma11"),
    "RDNA4": Generation("gfx12", _RDNA_FEATURES, (32, 64), _RDNA_GRANULE, 18, "wmma12"),
    "CDNA2": Generation("gfx9", _CDNA_FEATURES, (64,), {64: 8}, 13, "mfma"),
    "CDNA3": Generation("gfx9", _CDNA_FEATURES, (64,), {64: 8}, 17, "mfma"),
    "CDNA4": Generation("gfx9", _CDNA_FEATURES, (64,), {64: 8}, 20, "mfma"),
}
"""By the name of the chip's family."""


@dataclass(frozen=True, slots=True)
class AmdTarget:
    """One chip as a compiler's target."""

    chip: Chip
    generation: Generation

    @property
    def arch(self) -> str:
        """LLVM's name of the chip."""
        return self.chip.name

    @property
    def isa(self) -> str:
        """COMGR's name of the chip."""
        return f"{TRIPLE}--{self.chip.name}"

    def known(self, features: frozenset[str]) -> list[str]:
        """The features the chip has, sorted; a name it does not have is left out."""
        return sorted(features & self.generation.features)

    def settings(self, features: frozenset[str]) -> str:
        """LLVM's feature string."""
        known = self.known(features)
        off = ["-wavefrontsize32"] if _WAVE64 in known else []
        return ",".join([*off, *(f"+{name}" for name in known)])


TARGETS: Final[Mapping[str, AmdTarget]] = {
    chip.name: AmdTarget(chip, GENERATIONS[chip.family.name]) for chip in CHIPS.values()
}
_BY_MACH: Final = {target.chip.elf_mach: target for target in TARGETS.values()}
MACH_MASK: Final = 0xFF  # src: LLVM BinaryFormat/ELF.h EF_AMDGPU_MACH


def amd_target(arch: str) -> AmdTarget:
    """The chip of that name. Raises: Unsupported, with the names there are."""
    found = TARGETS.get(arch)
    if found is None:
        raise Unsupported(f"no AMD compiler for {arch!r}", hint=f"Known: {', '.join(TARGETS)}")
    return found


def target_of_flags(flags: int) -> AmdTarget:
    """The chip that the e_flags of a code object name. Raises: Unsupported."""
    found = _BY_MACH.get(flags & MACH_MASK)
    if found is None:
        raise Unsupported(
            f"a code object for an unknown chip (EF_AMDGPU_MACH {flags & MACH_MASK:#x})",
            hint=f"Known: {', '.join(TARGETS)}",
        )
    return found
