"""LLVM IR to PTX in this process, through llvmlite, and PTX to a cubin, through nvJitLink.

Input that would abort the process inside LLVM is refused first: unknown architectures, intrinsics
that one lacks, inline assembly, more shared memory than there is.
"""

from __future__ import annotations

import re
from typing import Any, Final

from compilers.cpu import llvm as cpu_llvm
from compilers.nv import llvm_matrix, nvjitlink
from compilers.nv.targets import STATIC_SHARED_BYTES, TRIPLE, NvTarget, nv_target
from drivers.base.errors import CompileError

_ASSEMBLY: Final = re.compile(
    r'\basm\s+(?:(?:sideeffect|alignstack|inteldialect|unwind)\s+)*"([^"]*)', re.ASCII
)
_SHARED_SPACE: Final = "addrspace(3)"
_HINT: Final = "The error's `source` holds the whole module"


def identity() -> bytes:
    """Identity of the installed LLVM and nvJitLink, without loading either."""
    return cpu_llvm.identity() + b" " + nvjitlink.identity()


def compile_object(source: str, arch: str, features: frozenset[str]) -> bytes:
    """Optimise at O3 and assemble; no fast-math anywhere.

    Raises: CompileError with the compiler's message and the source; Unsupported; NotFound.
    """
    return nvjitlink.assembled(ptx_of(source, arch), arch)


def ptx_of(source: str, arch: str) -> str:
    """The PTX of a module. Raises: as compile_object."""
    target = nv_target(arch)
    if "\0" in source:  # LLVM would stop there without an error
        raise CompileError("the module has a NUL in it", source=source, log="NUL in the text")
    taken = llvm_matrix.assembly_of(target)
    if any(found[1] not in taken for found in _ASSEMBLY.finditer(source)):
        raise _refused("inline assembly is not taken here: use CUDA C", source)
    with cpu_llvm.library() as llvm:
        machine = cpu_llvm.machine_for(llvm, TRIPLE, target.arch, target.llvm_features)
        module = cpu_llvm.verified(llvm, source, source, machine, TRIPLE)
        _check_module(module, machine, target, source)
        return cpu_llvm.assembly(llvm, module, machine)


def _check_module(module: Any, machine: Any, target: NvTarget, source: str) -> None:
    from compilers.nv import intrinsics

    declared = [function.name for function in module.functions if function.is_declaration]
    strangers = intrinsics.unknown(declared, target)
    if strangers:
        raise _refused(f"{target.arch} has no {', '.join(strangers)}", source)
    shared_bytes = sum(
        machine.target_data.get_abi_size(variable.global_value_type)
        for variable in module.global_variables
        if _SHARED_SPACE in str(variable.type)
    )
    if shared_bytes > STATIC_SHARED_BYTES:
        raise _refused(
            f"{shared_bytes} bytes of shared memory; a kernel may declare {STATIC_SHARED_BYTES}",
            source,
        )


def _refused(reason: str, source: str) -> CompileError:
    return CompileError(reason, log=reason, source=source, hint=_HINT)
