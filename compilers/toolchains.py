"""Kernel or source text to Binary, through the cache.

A warm entry needs neither llvmlite nor pyelftools: they are imported by the first real compilation.
"""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from compilers import cache
from compilers.amd import comgr as amd_comgr
from compilers.amd import llvm as amd_llvm
from compilers.cpu import clang, llvm
from drivers.base import forks
from drivers.base.contracts import Binary, Compiler
from drivers.base.errors import Unsupported

if TYPE_CHECKING:
    from compilers.ir import Kernel


AMD = "AMD:"
TOOLCHAINS: dict[str, Compiler] = {
    "LLVM": llvm,
    "CLANG": clang,
    f"{AMD}LLVM": amd_llvm,
    f"{AMD}HIP": amd_comgr,
}
"""Name -> module: for the CPU, then for AMD GPUs; the default of each first."""

_OWN_FILES = (
    "cpu/targets.py",
    "cpu/llvm.py",
    "cpu/clang.py",
    "objects/elf.py",
    "objects/elf_read.py",
    "objects/elf_x86_64.py",
    "objects/elf_aarch64.py",
)
_AMD_FILES = (
    "cpu/llvm.py",
    "amd/llvm.py",
    "amd/intrinsics.py",
    "amd/comgr.py",
    "amd/comgr_abi.py",
    "amd/targets.py",
    "amd/code_object.py",
    "amd/linked.py",
    "amd/descriptor.py",
    "amd/metadata.py",
    "amd/msgpack.py",
    "amd/relocs.py",
    "objects/elf.py",
    "objects/elf_read.py",
)


def build(kernel: Kernel, compiler: str, arch: str, features: frozenset[str]) -> Binary:
    """Render `kernel` for `compiler` ("LLVM", "CLANG"; "LLVM", "HIP" for a GPU) and compile it.

    `resources` of a GPU's binary are those of its code object and "block", lanes of a workgroup.
    Raises: CompileError; Unsupported for an unknown compiler or arch.
    """
    if kernel.block:
        compiler = f"{AMD}{compiler}"
    source = _render(kernel, compiler, arch, features)
    binary = compile_source(source, kernel.name, compiler, arch, features)
    if kernel.block:
        return replace(binary, resources={**binary.resources, "block": kernel.block})
    from compilers.lower.pace import Pace

    facts = {"scratch_bytes": kernel.scratch_bytes, **Pace(kernel).resources}
    return replace(binary, resources=facts)


def _render(kernel: Kernel, compiler: str, arch: str, features: frozenset[str]) -> str:
    if compiler == f"{AMD}LLVM":
        from compilers.amd import render_llvm as render_amd_llvm

        return render_amd_llvm.render(kernel, arch)
    if compiler == f"{AMD}HIP":
        from compilers.amd import render_hip

        return render_hip.render(kernel, arch)
    if compiler == "LLVM":
        from compilers.render import llvm as render_llvm

        return render_llvm.render(kernel, features=features)
    if compiler == "CLANG":
        from compilers.render import c as render_c

        return render_c.render(kernel, features=features)
    raise _unknown(compiler)


def _unknown(compiler: str) -> Unsupported:
    return Unsupported(f"no compiler {compiler!r}", hint=f"Known: {', '.join(TOOLCHAINS)}")


def compile_ir(text: str, name: str, arch: str, features: frozenset[str]) -> Binary:
    """LLVM IR to a Binary that is entered at the function `name`."""
    return compile_source(text, name, "LLVM", arch, features)


def compile_source(
    source: str,
    name: str,
    compiler: str,
    arch: str,
    features: frozenset[str],
    store: cache.Cache | None = None,
) -> Binary:
    """Source text of one compiler to a Binary, from the cache where it has it."""
    toolchain = TOOLCHAINS.get(compiler)
    if toolchain is None:
        raise _unknown(compiler)
    store = cache.default() if store is None else store
    facts = (_identity(compiler), compiler, arch, " ".join(sorted(features)), name, source)
    key = cache.key_of(*(fact.encode() for fact in facts))
    found = store.get(key)
    if found is None:
        with forks.postponed():
            blob = toolchain.compile_object(source, arch, features)
            found = load_object(blob, name, compiler, arch)
        store.put(key, found)
    return found


def load_object(blob: bytes, name: str, compiler: str, arch: str) -> Binary:
    """What `compiler` made, as a Binary that is entered at `name`. Raises: MalformedInput."""
    if compiler.startswith(AMD):
        from compilers.amd import code_object as amd_object

        return amd_object.load(blob, name, arch)
    from compilers.objects import elf

    return elf.load(blob, name, arch)


@functools.cache
def _identity(compiler: str) -> str:
    """Compiler version and the files that decide how it is used: a change of either is a miss."""
    parts = [TOOLCHAINS[compiler].identity()]
    for name in _AMD_FILES if compiler.startswith(AMD) else _OWN_FILES:
        with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
            parts.append(file.read())
    return cache.key_of(*parts)
