"""NVIDIA GPUs through libcuda: the same compilers, but the cubin stays whole, for libcuda to load.

Architectures are those of NVIDIA's family with a word before: "cuda_sm_86".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from compilers.family import TargetFamily, Toolchain
from compilers.gpu_target import GpuTarget
from compilers.instruction import Instruction
from compilers.ir import Kernel
from compilers.nv import cubin
from compilers.nv.family import FAMILY as NVIDIA
from compilers.nv.targets import STATIC_SHARED_BYTES
from drivers.base.contracts import Binary, Compiler
from drivers.base.errors import Unsupported
from queues.cuda.kernel_code import ARCH, encode_dynamic
from queues.nv.kernel_code import NvCode

_PREFIX = ARCH.removesuffix("sm_")
_MODULES = ("compilers.nv.cuda_family", "queues.cuda.kernel_code")


def _code_arch(arch: str) -> str:
    """What compilers call it: "sm_86". Raises: Unsupported."""
    if not arch.startswith(_PREFIX):
        raise Unsupported(f"{arch!r} is not an architecture of CUDA", hint=f"{ARCH}86 is one")
    return arch.removeprefix(_PREFIX)


@dataclass(frozen=True, slots=True)
class _Compiler:
    """A compiler of NVIDIA's family."""

    inner: Compiler

    def identity(self) -> bytes:
        """Of the compiler itself."""
        return self.inner.identity()

    def compile_object(self, source: str, arch: str, features: frozenset[str]) -> bytes:
        """A cubin. Raises: CompileError, Unsupported, NotFound."""
        return self.inner.compile_object(source, _code_arch(arch), features)


def _toolchain(one: Toolchain) -> Toolchain:
    def render(kernel: Kernel, arch: str, features: frozenset[str]) -> str:
        return one.render(kernel, _code_arch(arch), features)

    return replace(
        one, compiler=_Compiler(one.compiler), render=render, modules=(*one.modules, *_MODULES)
    )


def _load(blob: bytes, name: str, arch: str) -> Binary:
    """The whole cubin, once it is known to be one, with the kernel's resources."""
    taken = cubin.load(blob, name, _code_arch(arch))
    return Binary(arch, name, blob, 0, resources=replace(taken.resources, vendor=b""))


def _with_shared(binary: Binary, nbytes: int) -> Binary:
    """The same where a kernel has more than it may declare: libcuda is asked for the rest."""
    arch = _code_arch(binary.arch)
    if nbytes <= STATIC_SHARED_BYTES:
        return binary
    taken = cubin.with_shared(cubin.load(binary.image, binary.name, arch), nbytes)
    dynamic = encode_dynamic(NvCode.of(taken).dynamic_bytes)
    return replace(binary, resources=replace(taken.resources, vendor=dynamic))


def _functions(blob: bytes, arch: str) -> list[str]:
    return cubin.kernels(blob)


def _instructions(binary: Binary) -> Iterator[Instruction]:
    code = cubin.load(binary.image, binary.name, _code_arch(binary.arch))
    return NVIDIA.instructions(code)


def _gpu(arch: str) -> GpuTarget:
    if NVIDIA.gpu is None:
        raise Unsupported(f"{arch} has no lanes", hint="report it")
    return NVIDIA.gpu(_code_arch(arch))


FAMILY = TargetFamily(
    name="CUDA",
    toolchains={name: _toolchain(one) for name, one in NVIDIA.toolchains.items()},
    load=_load,
    functions=_functions,
    instructions=_instructions,
    gpu=_gpu,
    with_shared=_with_shared,
    offered=NVIDIA.offered,
)
