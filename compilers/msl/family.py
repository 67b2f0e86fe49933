"""Metal devices as a family of targets: macOS compiles, from MSL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

from compilers.family import TargetFamily, Toolchain
from compilers.gpu_target import GpuTarget
from compilers.instruction import Instruction
from compilers.ir import Kernel
from compilers.msl import compiler
from compilers.msl.matrix_forms import FORMS, LANES
from compilers.msl.narrow import LANES as VECTOR_LANES
from drivers.base.contracts import Arg, Binary, Limits, Resources
from drivers.base.errors import Unsupported
from queues.metal.kernel_code import MATRICES, MetalCode

MAX_BLOCK = 1024
SHARED_BYTES = 32 << 10
"""# src: Apple, "Metal Feature Set Tables": threadgroup memory allocation, Apple4 and later"""


def _source(kernel: Kernel, arch: str, features: frozenset[str]) -> str:
    from compilers.msl.render import render

    return render(kernel, features)


def _gpu(arch: str) -> GpuTarget:
    """Nothing is known of a chip by its name: `Target.of` takes what the device says."""
    return GpuTarget(max_block=MAX_BLOCK, shared_bytes=SHARED_BYTES, vector_lanes=VECTOR_LANES)


def _offered(gpu: GpuTarget, limits: Limits) -> GpuTarget:
    """Exchange of values, where the width of a SIMD-group is known, and its matrices."""
    forms = FORMS if MATRICES in limits.features else ()
    return replace(gpu, swaps=limits.wave_lanes == LANES, matrix_forms=forms)


def _load(blob: bytes, name: str, arch: str) -> Binary:
    code = MetalCode.decode(blob)
    needs = Resources(
        block=code.block,
        max_block=code.block,
        shared_bytes=code.shared_bytes,
        args=tuple(Arg(number, 8, True) for number in range(code.nargs)),
    )
    return Binary(arch, name, blob, 0, resources=needs)


def _functions(blob: bytes, arch: str) -> list[str]:
    MetalCode.decode(blob)
    return []


def _instructions(binary: Binary) -> Iterator[Instruction]:
    return _no_listing(binary)


def _no_listing(binary: Binary) -> NoReturn:
    raise Unsupported(
        f"{binary.name}: Metal shows no machine code of what it compiles",
        hint="read the kernel's source, or use Xcode's shader profiler",
    )


FAMILY = TargetFamily(
    name="Metal",
    toolchains={
        "MSL": Toolchain(
            compiler=compiler, render=_source, suffix=".metal",
            modules=(
                "queues.metal.kernel_code", "compilers.msl.compiler", "compilers.msl.functions",
                "compilers.msl.matrix_forms", "compilers.msl.narrow", "compilers.msl.printer",
                "compilers.msl.render",
            ),
        )
    },
    load=_load,
    functions=_functions,
    instructions=_instructions,
    gpu=_gpu,
    offered=_offered,
)  # fmt: skip
