"""What a family of targets provides to make and show code for its chips."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from compilers.gpu_target import GpuTarget
from compilers.instruction import Instruction
from compilers.ir import Kernel
from drivers.base.contracts import Binary, Compiler, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """One way from a kernel to an object."""

    compiler: Compiler
    render: Callable[[Kernel, str, frozenset[str]], str]
    """(kernel, arch, features) -> source. Raises: Unsupported, TypeError."""
    suffix: str
    """Of a file with its source: ".ll"."""
    modules: tuple[str, ...]
    """Modules that the result of a compilation depends on: a change of one is a cache miss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFamily:
    """The chips that share toolchains, a format of objects and a disassembler."""

    name: str
    toolchains: Mapping[str, Toolchain]
    """By the compiler's name, the default first."""
    load: Callable[[bytes, str, str], Binary]
    """(object, kernel, arch) -> a Binary with that entry. Raises: MalformedInput."""
    functions: Callable[[bytes, str], list[str]]
    """(object, arch) -> the names that it defines. Raises: MalformedInput."""
    instructions: Callable[[Binary], Iterator[Instruction]]
    """Decoded, with notes and labels that only this family knows. Raises: Unsupported, NotFound."""
    arch_of: Callable[[bytes], str | None] = lambda blob: None
    """The chip that an object is for, if its format names one of this family."""
    gpu: Callable[[str], GpuTarget] | None = None
    """(arch) -> its GpuTarget for lowering; None: a CPU. Raises: Unsupported."""
    with_shared: Callable[[Binary, int], Binary] = lambda binary, nbytes: binary
    """(Binary, shared memory that its kernel uses) -> the same, where code does not declare all of
    it. Raises: Unsupported."""
    offered: Callable[[GpuTarget, Limits], GpuTarget] = lambda gpu, limits: gpu
    """(what the architecture has, within the device's sizes; the limits of the device) -> what its
    compiler offers there: swaps and matrix forms that depend on `Limits.features`, for instance."""
