"""What the CPU device needs of a machine, for `python -m drivers.probe`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drivers.base.contracts import World
from drivers.cpu.features import read_processor
from drivers.machine.checks import Machine, Result
from drivers.machine.system import clang_description

_GIB: Final = 1 << 30


def cpu(machine: Machine) -> Result:
    """The processor, and the compilers that make code for it."""
    processor = read_processor(machine.world)
    wheels = {
        name: f"{name} {version}"
        for name in ("llvmlite", "ziglang")
        if (version := machine.packages(name))
    }
    clang = clang_description(machine.world, machine.environ) or wheels.get("ziglang")
    found = {"LLVM": wheels.get("llvmlite"), "CLANG": clang}
    compilers = {name: where for name, where in found.items() if where}
    limits = processor.limits
    details: dict[str, object] = {
        "arch": processor.arch,
        "threads": limits.threads,
        "vector_bits": 8 * limits.vector_bytes,
        "memory_bytes": limits.memory_bytes,
        "features": sorted(limits.features),
        "compilers": compilers,
    }
    shown = ", ".join(f"{name} ({where})" for name, where in compilers.items()) or "none"
    reason = (
        f"{processor.arch}, {limits.threads} threads, {8 * limits.vector_bytes}-bit vectors, "
        f"{limits.memory_bytes / _GIB:.1f} GiB for this process; compilers: {shown}"
    )
    if not compilers:
        return Result("CPU", "", False, reason, "pip install llvmlite, or ziglang", details)
    return Result("CPU", "", True, reason, "", details)


def numbers(world: World, _: Mapping[str, str]) -> list[int]:
    """The processor, which can always be opened."""
    return [0]
