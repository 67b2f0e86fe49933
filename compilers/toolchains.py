"""Kernel or source text to Binary, through the cache, by the toolchain of the target's family.

A warm entry needs neither llvmlite nor pyelftools: they are imported by the first real compilation.
"""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from compilers import cache
from compilers.families import family_of, toolchain_of
from compilers.family import Toolchain
from drivers.base import forks
from drivers.base.contracts import Arg, Binary, Resources
from drivers.base.imports import check_imports

if TYPE_CHECKING:
    from compilers.ir import Kernel


def build(kernel: Kernel, compiler: str, arch: str, features: frozenset[str]) -> Binary:
    """Render `kernel` for `compiler`, one of the family's of `arch`, and compile it.

    `resources` of a GPU's binary are those of its code object and `block`, lanes of a workgroup.
    Raises: CompileError; Unsupported for an unknown compiler or arch.
    """
    check_imports()
    source = toolchain_of(compiler, arch).render(kernel, arch, features)
    binary = compile_source(source, kernel.name, compiler, arch, features)
    if kernel.block:
        binary = family_of(arch).with_shared(binary, kernel.shared_bytes)
        return binary.in_blocks_of(kernel.block)
    from compilers.lower.pace import Pace

    code = Pace(kernel).code.encode()
    args = tuple(Arg(8 * number, 8, True) for number in range(len(kernel.params)))
    needs = Resources(scratch_bytes=kernel.scratch_bytes, args=args, vendor=code)
    return replace(binary, resources=needs)


def compile_ir(text: str, name: str, arch: str, features: frozenset[str]) -> Binary:
    """LLVM IR to a Binary with the function `name` as its entry."""
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
    check_imports()
    toolchain = toolchain_of(compiler, arch)
    store = cache.default() if store is None else store
    facts = (_identity(toolchain), compiler, arch, " ".join(sorted(features)), name, source)
    key = cache.key_of(*(fact.encode() for fact in facts))
    found = store.get(key)
    if found is None:
        with forks.postponed():
            blob = toolchain.compiler.compile_object(source, arch, features)
            found = family_of(arch).load(blob, name, arch)
        store.put(key, found)
    return found


@functools.cache
def _identity(toolchain: Toolchain) -> str:
    """Compiler version and the files that decide how it is used: a change of either is a miss."""
    parts = [toolchain.compiler.identity()]
    root = os.path.dirname(os.path.dirname(cache.__file__))
    for module in toolchain.modules:
        with open(os.path.join(root, *module.split(".")) + ".py", "rb") as file:
            parts.append(file.read())
    return cache.key_of(*parts)
