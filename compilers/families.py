"""Families of targets: what a family's own module brings to make and show code for its chips.

`FAMILIES` is the one table that a new vendor adds a line to; nothing else here, and nothing that
lowers, caches or lists kernels, names a vendor or imports its driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from compilers.gpu_target import GpuTarget
from compilers.instruction import Instruction
from compilers.ir import Kernel
from drivers.base.contracts import Binary, Compiler
from drivers.base.errors import Unsupported


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """One way from a kernel to an object."""

    compiler: Compiler
    render: Callable[[Kernel, str, frozenset[str]], str]
    """(kernel, arch, features) -> source. Raises: Unsupported, TypeError."""
    suffix: str
    """Of a file with its source: ".ll"."""
    modules: tuple[str, ...]
    """Those that decide what becomes of a source: a change of one is a miss in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFamily:
    """The chips that share toolchains, a format of objects and a disassembler."""

    name: str
    toolchains: Mapping[str, Toolchain]
    """By the compiler's name, the default first."""
    load: Callable[[bytes, str, str], Binary]
    """(object, kernel, arch) -> a Binary that is entered there. Raises: MalformedInput."""
    functions: Callable[[bytes, str], list[str]]
    """(object, arch) -> the names of what it defines. Raises: MalformedInput."""
    instructions: Callable[[Binary], Iterator[Instruction]]
    """Decoded, with notes and labels that only this family knows. Raises: Unsupported, NotFound."""
    arch_of: Callable[[bytes], str | None] = lambda blob: None
    """The chip that an object is for, where its format says it and it is this family's."""
    gpu: Callable[[str], GpuTarget] | None = None
    """(arch) -> what lowering asks of it; None: a CPU. Raises: Unsupported."""


Loader: TypeAlias = Callable[[], TargetFamily]


def _cpu() -> TargetFamily:
    from compilers.cpu_family import FAMILY

    return FAMILY


def _amd() -> TargetFamily:
    from compilers.amd_family import FAMILY

    return FAMILY


FAMILIES: dict[str, Loader] = {"x86_64": _cpu, "aarch64": _cpu, "gfx": _amd}
"""How names of architectures begin -> how to get the family, which is imported when it is asked."""


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
