"""WebGPU devices as a family of targets: their libraries compile, from WGSL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compilers.family import TargetFamily, Toolchain
from compilers.gpu_target import GpuTarget
from compilers.instruction import Instruction
from compilers.ir import Kernel
from compilers.wgsl import compiler
from drivers.base.contracts import Arg, Binary, Limits, Resources
from drivers.base.errors import Unsupported
from drivers.webgpu.facts import PROCESSOR
from queues.webgpu.kernel_code import SUBGROUPS, WgslCode

LEAST_BLOCK: Final = 256
LEAST_SHARED_BYTES: Final = 16 << 10
"""# src: WebGPU, 3.6.2 "Limits": what every adapter has"""
LANES: Final = 4
"""Elements of WGSL's longest vector."""


def _source(kernel: Kernel, arch: str, features: frozenset[str]) -> str:
    from compilers.wgsl.render import render

    return render(kernel, features)


def _gpu(arch: str) -> GpuTarget:
    """Nothing is known of a chip by its name: `Target.of` takes what the device says."""
    return GpuTarget(max_block=LEAST_BLOCK, shared_bytes=LEAST_SHARED_BYTES, vector_lanes=LANES)


def _offered(gpu: GpuTarget, limits: Limits) -> GpuTarget:
    """Exchange of values in subgroups of a known size. A processor that plays the lanes says so."""
    return replace(
        gpu, swaps=SUBGROUPS in limits.features, costly_loads=PROCESSOR in limits.features
    )


def _load(blob: bytes, name: str, arch: str) -> Binary:
    code = WgslCode.decode(blob)
    needs = Resources(
        block=code.block,
        max_block=code.block,
        shared_bytes=code.shared_bytes,
        args=tuple(Arg(8 * number, 8, True) for number in range(len(code.access))),
    )
    return Binary(arch, name, blob, 0, resources=needs)


def _functions(blob: bytes, arch: str) -> list[str]:
    return [WgslCode.decode(blob).entry]


def _instructions(binary: Binary) -> Iterator[Instruction]:
    raise Unsupported(
        f"{binary.name}: a WebGPU library does not show its machine code",
        hint="read the kernel's source",
    )


FAMILY: Final = TargetFamily(
    name="WebGPU",
    toolchains={
        "WGSL": Toolchain(
            compiler=compiler,
            render=_source,
            suffix=".wgsl",
            modules=(
                "queues.webgpu.kernel_code",
                "compilers.wgsl.compiler",
                "drivers.webgpu.modules",
            ),
        )
    },
    load=_load,
    functions=_functions,
    instructions=_instructions,
    gpu=_gpu,
    offered=_offered,
)
