"""NVIDIA GPUs as a family of targets: nvrtc from CUDA C by default, PTX by LLVM, cubins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compilers.family import TargetFamily, Toolchain
from compilers.gpu_target import GpuTarget
from compilers.instruction import Instruction
from compilers.ir import Kernel
from compilers.nv import nvrtc, ptx
from drivers.base.contracts import Binary, Limits

_MODULES = (
    "queues.nv.kernel_code",
    "compilers.cpu.llvm",
    "compilers.nv.cubin",
    "compilers.nv.cubin_file",
    "compilers.nv.cubin_info",
    "compilers.nv.cubin_resources",
    "compilers.nv.intrinsics",
    "compilers.nv.libraries",
    "compilers.nv.llvm_matrix",
    "compilers.nv.nvjitlink",
    "compilers.nv.nvrtc",
    "compilers.nv.ptx",
    "compilers.nv.targets",
)


def _cuda(kernel: Kernel, arch: str, features: frozenset[str]) -> str:
    from compilers.nv import render_cuda

    return render_cuda.render(kernel, arch)


def _llvm_ir(kernel: Kernel, arch: str, features: frozenset[str]) -> str:
    from compilers.nv import render_ptx

    return render_ptx.render(kernel, arch)


def _load(blob: bytes, name: str, arch: str) -> Binary:
    from compilers.nv import cubin

    return cubin.load(blob, name, arch)


def _with_shared(binary: Binary, nbytes: int) -> Binary:
    from compilers.nv import cubin
    from compilers.nv.targets import STATIC_SHARED_BYTES

    return cubin.with_shared(binary, nbytes) if nbytes > STATIC_SHARED_BYTES else binary


def _functions(blob: bytes, arch: str) -> list[str]:
    from compilers.nv import cubin

    return cubin.kernels(blob)


def _arch_of(blob: bytes) -> str | None:
    from compilers.nv import cubin

    return cubin.arch_of(blob) if cubin.is_cubin(blob) else None


def _instructions(binary: Binary) -> Iterator[Instruction]:
    from compilers.nv import disasm

    return disasm.instructions(binary)


def _gpu(arch: str) -> GpuTarget:
    from compilers.nv.matrix_forms import forms_of, tile_forms_of
    from compilers.nv.targets import MAX_BLOCK, WAVE_LANES, nv_target

    target = nv_target(arch)
    return GpuTarget(
        max_block=MAX_BLOCK,
        shared_bytes=target.shared_bytes,
        wave_lanes=WAVE_LANES,
        swaps=True,
        matrix_forms=forms_of(target.matrix),
        tile_forms=tile_forms_of(target.matrix),
        copies=target.copies,
    )


def _offered(gpu: GpuTarget, limits: Limits) -> GpuTarget:
    """Forms that round float32 to tf32 where the device has that feature."""
    from compilers.nv.matrix_forms import ROUNDED, rounded_forms

    if ROUNDED not in limits.features or not gpu.copies:
        return gpu
    return replace(gpu, matrix_forms=(*gpu.matrix_forms, *rounded_forms()))


FAMILY = TargetFamily(
    name="NVIDIA",
    toolchains={
        "NVRTC": Toolchain(compiler=nvrtc, render=_cuda, suffix=".cu", modules=_MODULES),
        "PTX": Toolchain(compiler=ptx, render=_llvm_ir, suffix=".ll", modules=_MODULES),
    },
    load=_load,
    functions=_functions,
    instructions=_instructions,
    arch_of=_arch_of,
    gpu=_gpu,
    with_shared=_with_shared,
    offered=_offered,
)
