"""LLVM IR text to a relocatable code object for an AMD GPU, in this process, through llvmlite.

Input that would abort the process inside LLVM is refused first: unknown chips, intrinsics that a
chip lacks, inline assembly, more local memory than there is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from compilers.cpu import llvm as cpu_llvm
from drivers.base.errors import CompileError

if TYPE_CHECKING:
    from compilers.amd.targets import AmdTarget

identity = cpu_llvm.identity
"""Identity of the installed LLVM: the same llvmlite serves the CPU."""

_ASSEMBLY: Final = re.compile(
    r'\basm\s+(?:(?:sideeffect|alignstack|inteldialect|unwind)\s+)*"', re.ASCII
)
_VERSION_FLAG: Final = "amdhsa_code_object_version"
_FLAG_NUMBER: Final = 1 << 20
"""Metadata number of our module flag: far above any that a module uses."""
_LDS_SPACE: Final = "addrspace(3)"
_LDS_ALIGN_BYTES: Final = 16
_HINT: Final = "The error's `source` holds the whole module"


def compile_object(source: str, arch: str, features: frozenset[str]) -> bytes:
    """Optimise at O3 and assemble; no fast-math anywhere, denormals as the module sets them.

    Raises: CompileError with LLVM's message and the source; Unsupported; NotFound.
    """
    from compilers.amd.targets import TRIPLE, amd_target

    target = amd_target(arch)
    _check_text(source)
    with cpu_llvm.library() as llvm:
        return _compiled(llvm, source, target, TRIPLE, target.settings(features))


def _compiled(llvm: Any, source: str, target: AmdTarget, triple: str, settings: str) -> bytes:
    machine = cpu_llvm.machine_for(llvm, triple, target.arch, settings)
    module = cpu_llvm.verified(llvm, _versioned(source), source, machine, triple)
    _check_module(module, machine, target, source)
    return cpu_llvm.optimised(llvm, module, machine)


def _check_text(source: str) -> None:
    if "\0" in source:  # LLVM would stop there without an error
        raise CompileError("the module has a NUL in it", source=source, log="NUL in the text")
    if _ASSEMBLY.search(source):
        raise _refused("inline assembly needs an assembler, which llvmlite does not have", source)


def _versioned(source: str) -> str:
    """The module, with the loader's code object version unless it sets another."""
    from compilers.amd.targets import CODE_OBJECT_VERSION

    if _VERSION_FLAG in source:
        return source
    flag = f'!{{i32 1, !"{_VERSION_FLAG}", i32 {CODE_OBJECT_VERSION}}}'
    return f"{source}\n!llvm.module.flags = !{{!{_FLAG_NUMBER}}}\n!{_FLAG_NUMBER} = {flag}\n"


def _check_module(module: Any, machine: Any, target: AmdTarget, source: str) -> None:
    from compilers.amd import intrinsics as amd_intrinsics

    declared = [function.name for function in module.functions if function.is_declaration]
    strangers = amd_intrinsics.unknown(declared, target)
    if strangers:
        raise _refused(f"{target.arch} has no {', '.join(strangers)}", source)
    lds_bytes = 0
    for variable in module.global_variables:
        if _LDS_SPACE in str(variable.type):
            nbytes = machine.target_data.get_abi_size(variable.global_value_type)
            lds_bytes += nbytes + -nbytes % _LDS_ALIGN_BYTES
    if lds_bytes > target.chip.lds_bytes:
        raise _refused(
            f"{lds_bytes} bytes of local memory; {target.arch} has {target.chip.lds_bytes}", source
        )


def _refused(reason: str, source: str) -> CompileError:
    return CompileError(reason, log=reason, source=source, hint=_HINT)
