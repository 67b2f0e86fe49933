"""Qualcomm's Adreno GPUs as a family of targets: ir3 code, made here or by a system's OpenCL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compilers import binary
from compilers.family import TargetFamily, Toolchain
from compilers.gpu_target import GpuTarget
from compilers.instruction import Instruction
from compilers.ir import Kernel
from compilers.qcom import cl_code, cl_compiler, compiler
from compilers.qcom.targets import MAX_BLOCK, SHARED_BYTES, WAVE_LANES, qcom_target
from drivers.base.contracts import Binary, Limits
from drivers.base.errors import MalformedInput
from queues.qcom.kernel_code import OPENCL, AdrenoCode

LANES: Final = 4
"""Elements of the longest load."""
_PASSES: Final = ("allocate", "assemble", "compiler", "effects", "fit", "hazards", "images",
                  "legalize", "operands", "parse", "schedule", "spans", "targets",
                  "tidy")  # fmt: skip
_OPENCL: Final = ("cl_code", "cl_compiler", "cl_container", "cl_library", "cl_render", "targets")
_ISA: Final = ("alias", "alu", "bits", "build", "encode", "flow", "forms", "instruction", "memory",
               "memory_bindless", "operand", "precision", "slots", "sources", "tables",
               "texture")  # fmt: skip


def _source(kernel: Kernel, arch: str, features: frozenset[str]) -> str:
    from compilers.qcom.render import render

    return render(kernel, arch, features)


def _opencl(kernel: Kernel, arch: str, features: frozenset[str]) -> str:
    from compilers.qcom.cl_render import render

    cl_code.generation_6(arch)
    return render(kernel)


def _offered(gpu: GpuTarget, limits: Limits) -> GpuTarget:
    """OpenCL C names neither the lanes of a wave nor a way to exchange their values."""
    return replace(gpu, swaps=False, wave_lanes=None) if OPENCL in limits.features else gpu


def _gpu(arch: str) -> GpuTarget:
    qcom_target(arch)
    return GpuTarget(
        max_block=MAX_BLOCK,
        shared_bytes=SHARED_BYTES,
        wave_lanes=WAVE_LANES,
        vector_lanes=LANES,
        swaps=True,
    )


def _load(blob: bytes, name: str, arch: str) -> Binary:
    found = binary.decode(blob)
    if found.arch != arch:
        raise MalformedInput(f"{name}: code for {found.arch}, not {arch}")
    AdrenoCode.of(found)
    return replace(found, name=name)


def _functions(blob: bytes, arch: str) -> list[str]:
    binary.decode(blob)
    return []


def _instructions(binary: Binary) -> Iterator[Instruction]:
    from compilers.qcom import disasm

    return disasm.instructions(binary)


FAMILY: Final = TargetFamily(
    name="Qualcomm",
    toolchains={
        "IR3": Toolchain(
            compiler=compiler,
            render=_source,
            suffix=".ir3",
            modules=(
                "queues.qcom.kernel_code",
                "queues.qcom.textures",
                *(f"compilers.qcom.{name}" for name in _PASSES),
                *(f"compilers.qcom.isa.{name}" for name in _ISA),
            ),
        ),
        "CL": Toolchain(
            compiler=cl_compiler,
            render=_opencl,
            suffix=".cl",
            modules=(
                "queues.qcom.kernel_code",
                *(f"compilers.qcom.{name}" for name in _OPENCL),
            ),
        ),
    },
    load=_load,
    functions=_functions,
    instructions=_instructions,
    gpu=_gpu,
    offered=_offered,
)
