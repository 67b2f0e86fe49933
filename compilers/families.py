"""The families of targets, by how names of architectures begin.

`FAMILIES` is the one table that a new vendor adds a line to. No other code here, and no code that
lowers, caches or lists kernels, names a vendor or imports its driver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from compilers.family import TargetFamily, Toolchain
from drivers.base.errors import Unsupported

Loader: TypeAlias = Callable[[], TargetFamily]


def _cpu() -> TargetFamily:
    from compilers.cpu.family import FAMILY

    return FAMILY


def _amd() -> TargetFamily:
    from compilers.amd.family import FAMILY

    return FAMILY


def _nvidia() -> TargetFamily:
    from compilers.nv.family import FAMILY

    return FAMILY


def _cuda() -> TargetFamily:
    from compilers.nv.cuda_family import FAMILY

    return FAMILY


def _opencl_cpu() -> TargetFamily:
    from compilers.opencl.family import PROCESSOR

    return PROCESSOR


def _opencl_gpu() -> TargetFamily:
    from compilers.opencl.family import GPU

    return GPU


def _metal() -> TargetFamily:
    from compilers.msl.family import FAMILY

    return FAMILY


def _webgpu() -> TargetFamily:
    from compilers.wgsl.family import FAMILY

    return FAMILY


def _qualcomm() -> TargetFamily:
    from compilers.qcom.family import FAMILY

    return FAMILY


FAMILIES: dict[str, Loader] = {
    "x86_64": _cpu,
    "aarch64": _cpu,
    "gfx": _amd,
    "sm_": _nvidia,
    "cuda_sm_": _cuda,
    "opencl-cpu": _opencl_cpu,
    "opencl-gpu": _opencl_gpu,
    "metal": _metal,
    "webgpu": _webgpu,
    "a6": _qualcomm,
    "a7": _qualcomm,
    "x1-": _qualcomm,
}
"""Prefix of architecture names -> how to get the family, which is imported on demand."""


def family_of(arch: str) -> TargetFamily:
    """The family of an architecture. Raises: Unsupported."""
    for prefix, load in FAMILIES.items():
        if arch.startswith(prefix):
            return load()
    raise Unsupported(f"no compiler for {arch!r}", hint=f"Known: {', '.join(FAMILIES)}")


def every_family() -> list[TargetFamily]:
    """All of them, each once."""
    return [load() for load in dict.fromkeys(FAMILIES.values())]


def toolchain_of(compiler: str, arch: str) -> Toolchain:
    """The toolchain of that name for an architecture. Raises: Unsupported."""
    toolchains = family_of(arch).toolchains
    if compiler not in toolchains:
        known = ", ".join(toolchains)
        raise Unsupported(f"no compiler {compiler!r} for {arch}", hint=f"Known: {known}")
    return toolchains[compiler]
