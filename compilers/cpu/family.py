"""CPUs as a family of targets: LLVM in this process by default, clang, relocatable ELF objects."""

from __future__ import annotations

from collections.abc import Iterator

from compilers.cpu import clang, llvm
from compilers.family import TargetFamily, Toolchain
from compilers.instruction import Instruction
from compilers.ir import Kernel
from drivers.base.contracts import Binary

_MODULES = (
    "queues.cpu.kernel_code",
    "compilers.cpu.targets",
    "compilers.cpu.llvm",
    "compilers.cpu.clang",
    "compilers.objects.elf",
    "compilers.objects.elf_read",
    "compilers.objects.elf_x86_64",
    "compilers.objects.elf_aarch64",
)


def _llvm_ir(kernel: Kernel, arch: str, features: frozenset[str]) -> str:
    from compilers.render import llvm as render_llvm

    return render_llvm.render(kernel, features=features)


def _c(kernel: Kernel, arch: str, features: frozenset[str]) -> str:
    from compilers.render import c as render_c

    return render_c.render(kernel, features=features)


def _load(blob: bytes, name: str, arch: str) -> Binary:
    from compilers.objects import elf

    return elf.load(blob, name, arch)


def _functions(blob: bytes, arch: str) -> list[str]:
    from compilers.cpu.targets import target
    from compilers.objects.elf_read import Object

    return Object(blob, target(arch).machine).functions()


def _instructions(binary: Binary) -> Iterator[Instruction]:
    from compilers.cpu import disasm as cpu_disasm

    return cpu_disasm.instructions(binary)


FAMILY = TargetFamily(
    name="CPU",
    toolchains={
        "LLVM": Toolchain(compiler=llvm, render=_llvm_ir, suffix=".ll", modules=_MODULES),
        "CLANG": Toolchain(compiler=clang, render=_c, suffix=".c", modules=_MODULES),
    },
    load=_load,
    functions=_functions,
    instructions=_instructions,
)
