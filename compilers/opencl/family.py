"""OpenCL devices as families of targets: their drivers compile, from OpenCL C."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

from compilers.family import TargetFamily, Toolchain
from compilers.gpu_target import GpuTarget
from compilers.instruction import Instruction
from compilers.ir import Kernel
from compilers.opencl import compiler
from drivers.base.contracts import Arg, Binary, Limits, Resources
from drivers.base.errors import Unsupported
from queues.cl.kernel_code import SUBGROUPS, ClCode

_MODULES = (
    "queues.cl.kernel_code",
    "compilers.opencl.compiler",
    "drivers.cl.building",
)


def _processor_source(kernel: Kernel, arch: str, features: frozenset[str]) -> str:
    from compilers.opencl import render_host

    return render_host.render(kernel, features)


def _lanes_source(kernel: Kernel, arch: str, features: frozenset[str]) -> str:
    from compilers.opencl import render_lanes

    return render_lanes.render(kernel, features)


def _gpu(arch: str) -> GpuTarget:
    """Nothing is known of a chip by its name: `Target.of` takes what the device says."""
    return GpuTarget(max_block=LEAST_BLOCK, shared_bytes=LEAST_SHARED_BYTES)


def _offered(gpu: GpuTarget, limits: Limits) -> GpuTarget:
    """Exchange of values, where a subgroup's size can be demanded."""
    return replace(gpu, swaps=SUBGROUPS in limits.features)


def _load(blob: bytes, name: str, arch: str) -> Binary:
    code = ClCode.decode(blob)
    needs = Resources(
        block=code.block,
        max_block=code.max_block,
        shared_bytes=code.shared_bytes,
        args=tuple(Arg(number, 8, True) for number in range(code.nargs)),
    )
    return Binary(arch, name, blob, 0, resources=needs)


def _functions(blob: bytes, arch: str) -> list[str]:
    ClCode.decode(blob)
    return []


def _instructions(binary: Binary) -> Iterator[Instruction]:
    return _no_listing(binary)


def _no_listing(binary: Binary) -> NoReturn:
    raise Unsupported(
        f"{binary.name}: an OpenCL driver does not show its machine code",
        hint="read the kernel's source, or its vendor's tool",
    )


LEAST_BLOCK = 256
LEAST_SHARED_BYTES = 32 << 10
"""# src: OpenCL API 3.0, CL_DEVICE_LOCAL_MEM_SIZE of a full profile"""
PROCESSOR = TargetFamily(
    name="OpenCL on processors",
    toolchains={
        "OPENCL": Toolchain(
            compiler=compiler, render=_processor_source, suffix=".cl", modules=_MODULES
        )
    },
    load=_load,
    functions=_functions,
    instructions=_instructions,
)
GPU = TargetFamily(
    name="OpenCL",
    toolchains={
        "OPENCL": Toolchain(compiler=compiler, render=_lanes_source, suffix=".cl", modules=_MODULES)
    },
    load=_load,
    functions=_functions,
    instructions=_instructions,
    gpu=_gpu,
    offered=_offered,
)
