"""The NVIDIA architectures that code is generated for, as data.

An unknown name ends the whole process inside LLVM, so every name is looked up here first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from drivers.base.errors import Unsupported

WAVE_LANES: Final = 32
MAX_BLOCK: Final = 1024
"""# src: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" """
STATIC_SHARED_BYTES: Final = 48 << 10
"""Shared memory that a kernel may declare; more is dynamic, by opting in.
# src: CUDA C++ Programming Guide, "Shared Memory", of every compute capability"""
RESERVED_SHARED_BYTES: Final = 1 << 10
"""# src: NVIDIA Ampere GPU Architecture Tuning Guide, 1.4.2.3: 1 KB a thread block, from 8.0 on"""
FIRST_INCLUDING_RESERVED: Final = 90
"""From sm_90 on the reserved part is in the size of a cubin's section of shared memory.
# src: cuobjdump of one kernel for sm_86 and sm_90"""
ALIGN_BYTES: Final = 16
"""Of a kernel's arrays, and of one lane's largest load. # src: PTX ISA, vectors of at most 128 bits
"""
TRIPLE: Final = "nvptx64-nvidia-cuda"
_FIRST_RESERVING: Final = 80
_FIRST_COPYING: Final = 80


@dataclass(frozen=True, slots=True)
class NvTarget:
    """One architecture as a compiler's target."""

    arch: str
    """As nvrtc and LLVM spell it: "sm_90a"."""
    sm: int
    """Compute capability: 90."""
    sm_shared_bytes: int
    """Shared memory of a multiprocessor, the reserved part of each workgroup included.
    # src: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" """
    matrix: str
    """Which matrix forms it has: a key of `compilers.nv.matrix_forms`."""
    llvm_features: str = ""
    """A newer PTX than LLVM takes for it by itself. # src: PTX ISA, mma.m16n8k8 of f16: PTX 6.5;
    LLVM NVPTX.td: sm_75 has 6.3"""

    @property
    def copies(self) -> bool:
        """Whether cp.async is there, and all of ldmatrix. # src: PTX ISA, "cp.async": sm_80"""
        return self.sm >= _FIRST_COPYING

    @property
    def reserved_shared_bytes(self) -> int:
        """Shared memory of each workgroup that the system keeps."""
        return RESERVED_SHARED_BYTES if self.sm >= _FIRST_RESERVING else 0

    @property
    def shared_bytes(self) -> int:
        """The most that a workgroup may have by opting in: 64, 99, 163 or 227 KiB.
        # src: CUDA C++ Programming Guide, "Maximum amount of shared memory per thread block" """
        return self.sm_shared_bytes - self.reserved_shared_bytes


TARGETS: Final[Mapping[str, NvTarget]] = {
    target.arch: target
    for target in (
        NvTarget("sm_75", 75, 64 << 10, "turing", "+ptx65"),
        NvTarget("sm_80", 80, 164 << 10, "ampere"),
        NvTarget("sm_86", 86, 100 << 10, "ampere"),
        NvTarget("sm_89", 89, 100 << 10, "ampere"),
        NvTarget("sm_90", 90, 228 << 10, "ampere"),
        NvTarget("sm_90a", 90, 228 << 10, "hopper"),
        NvTarget("sm_100", 100, 228 << 10, "ampere"),
        NvTarget("sm_103", 103, 228 << 10, "ampere"),
        NvTarget("sm_110", 110, 228 << 10, "ampere"),
        NvTarget("sm_120", 120, 100 << 10, "ampere"),
        NvTarget("sm_121", 121, 100 << 10, "ampere"),
    )
}


def nv_target(arch: str) -> NvTarget:
    """The architecture of that name. Raises: Unsupported, with the names there are."""
    found = TARGETS.get(arch)
    if found is None:
        raise Unsupported(f"no NVIDIA compiler for {arch!r}", hint=f"Known: {', '.join(TARGETS)}")
    return found
