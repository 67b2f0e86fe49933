"""LLVM's own output for a module: the expected values of tests of code objects."""

from __future__ import annotations

import re
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from compilers.amd import comgr_abi as amd_comgr_abi
from compilers.amd import disasm as amd_disasm
from compilers.amd.targets import TRIPLE
from compilers.cpu.llvm import free_passes
from drivers.base.errors import NotFound

LLVM_OF_EVERY_CHIP = 18
"""src: llvm/lib/Target/AMDGPU/GCNProcessors.td: gfx1200 and gfx1201 came with LLVM 18."""
POINTERS_LINKED = Path(__file__).parent / "data" / "amd_pointers_gfx1100.hsaco"
"""`amd_kernels.pointers()` for gfx1100, linked by ld.lld 19 (-shared), without its .comment."""


def assembly(source: str, arch: str, features: str = "") -> str:
    """LLVM's assembly of an optimised module, with its directives and metadata."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(
        arch, features, 3, "pic", "small"
    )
    flag = '!{i32 1, !"amdhsa_code_object_version", i32 500}'
    text = f"{source}\n!llvm.module.flags = !{{!99}}\n!99 = {flag}\n"
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        module.triple, module.data_layout = TRIPLE, str(machine.target_data)
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
        passes = builder.getModulePassManager()
        passes.run(module, builder)
        free_passes(llvm, passes)
        return str(machine.emit_assembly(module))


def directives(text: str) -> dict[str, int]:
    """The numbers of `.amdhsa_...` directives and of the metadata's `.key: n` lines."""
    found = re.findall(r"^\s*(?:- )?\.(amdhsa_\w+) (\d+)$", text, re.MULTILINE)
    found += re.findall(r"^\s*(?:- )?\.(\w+):\s+(\d+)$", text, re.MULTILINE)
    return {name: int(number) for name, number in found}


def arguments(text: str) -> list[tuple[int, int, str]]:
    """Offset, size and kind of every argument, from the metadata."""
    pattern = r"\.offset:\s+(\d+)\s+\.size:\s+(\d+)\s+\.value_kind:\s+(\w+)"
    return [(int(o), int(s), kind) for o, s, kind in re.findall(pattern, text)]


def instructions(text: str) -> list[str]:
    """The instructions between the kernel's label and its end, spaces normalised."""
    body = text[text.index("\nk:") : text.index("\t.section\t.rodata")]
    lines = [line.partition(";")[0] for line in body.splitlines() if line.startswith("\t")]
    return [" ".join(line.split()) for line in lines if line.strip() and line[1] != "."]


def _has_comgr() -> bool:
    try:
        amd_comgr_abi.find()
    except NotFound:
        return False
    return True


def _libllvm_major() -> int:
    try:
        return amd_disasm.find()[0]
    except NotFound:
        return 0


needs_comgr = pytest.mark.skipif(not _has_comgr(), reason="no COMGR: install libamd-comgr2")
needs_libllvm = pytest.mark.skipif(
    _libllvm_major() < LLVM_OF_EVERY_CHIP,
    reason=f"no libLLVM {LLVM_OF_EVERY_CHIP} or later: install {amd_disasm.PACKAGE}",
)
