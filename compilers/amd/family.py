"""AMD GPUs as a family of targets: LLVM in this process by default, COMGR, code objects."""

from __future__ import annotations

from collections.abc import Iterator

from compilers.amd import comgr as amd_comgr
from compilers.amd import llvm as amd_llvm
from compilers.family import TargetFamily, Toolchain
from compilers.gpu_target import GpuTarget
from compilers.instruction import Instruction
from compilers.ir import Kernel
from drivers.base.contracts import Binary

_MODULES = (
    "queues.amd.kernel_code",
    "compilers.cpu.llvm",
    "compilers.amd.llvm",
    "compilers.amd.intrinsics",
    "compilers.amd.comgr",
    "compilers.amd.comgr_abi",
    "compilers.amd.targets",
    "compilers.amd.code_object",
    "compilers.amd.linked",
    "compilers.amd.descriptor",
    "compilers.amd.metadata",
    "compilers.amd.msgpack",
    "compilers.amd.relocs",
    "compilers.objects.elf",
    "compilers.objects.elf_read",
)


def _llvm_ir(kernel: Kernel, arch: str, features: frozenset[str]) -> str:
    from compilers.amd import render_llvm as render_amd_llvm

    return render_amd_llvm.render(kernel, arch)


def _hip(kernel: Kernel, arch: str, features: frozenset[str]) -> str:
    from compilers.amd import render_hip

    return render_hip.render(kernel, arch)


def _load(blob: bytes, name: str, arch: str) -> Binary:
    from compilers.amd import code_object as amd_object

    return amd_object.load(blob, name, arch)


def _functions(blob: bytes, arch: str) -> list[str]:
    from compilers.amd import code_object as amd_object

    return amd_object.kernels(blob)


def _arch_of(blob: bytes) -> str | None:
    from compilers.amd import code_object as amd_object

    return amd_object.arch_of(blob) if amd_object.is_code_object(blob) else None


def _instructions(binary: Binary) -> Iterator[Instruction]:
    from compilers.amd import disasm as amd_disasm

    return amd_disasm.instructions(binary)


def _gpu(arch: str) -> GpuTarget:
    from compilers.amd.matrix_forms import forms_of
    from compilers.amd.rates import in_flight
    from compilers.amd.targets import amd_target
    from drivers.amd.chips import MAX_WORKGROUP_LANES

    target = amd_target(arch)
    return GpuTarget(
        max_block=MAX_WORKGROUP_LANES,
        shared_bytes=target.chip.lds_bytes,
        wave_lanes=target.chip.family.wave_lanes,
        swaps=True,
        matrix_forms=forms_of(target.generation.matrix),
        **in_flight(arch),
    )


FAMILY = TargetFamily(
    name="AMD",
    toolchains={
        "LLVM": Toolchain(compiler=amd_llvm, render=_llvm_ir, suffix=".ll", modules=_MODULES),
        "HIP": Toolchain(compiler=amd_comgr, render=_hip, suffix=".hip", modules=_MODULES),
    },
    load=_load,
    functions=_functions,
    instructions=_instructions,
    arch_of=_arch_of,
    gpu=_gpu,
)
