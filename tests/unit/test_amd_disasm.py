"""AMD disassembly: words from the ISA manuals, and LLVM's own assembly of the same module."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilers import disasm
from compilers.amd import code_object as amd_object
from compilers.amd import disasm as amd_disasm
from compilers.amd import llvm as amd_llvm
from compilers.instruction import Instruction
from compilers.objects.listing import disassemble
from drivers.base.contracts import Binary
from drivers.base.errors import NotFound, Unsupported
from tests import amd_kernels, amd_toolbox
from tests.amd_toolbox import needs_libllvm
from tests.support import check

NONE: frozenset[str] = frozenset()


def known(arch: str) -> str:
    """The chip, when the installed LLVM knows it."""
    try:
        amd_disasm.Disassembler(arch).close()
    except Unsupported as error:
        pytest.skip(str(error))
    return arch


def load(source: str, arch: str) -> Binary:
    return amd_object.load(amd_llvm.compile_object(source, arch, NONE), "k", arch)


@needs_libllvm
@pytest.mark.parametrize(
    ("arch", "words", "text"),
    [  # src: the ISA manuals of RDNA2, RDNA3, RDNA4, CDNA3
        ("gfx1030", [0x7E020302], "v_mov_b32_e32 v1, v2"),
        ("gfx1030", [0xBF810000], "s_endpgm"),
        ("gfx1100", [0xBFB00000], "s_endpgm"),
        ("gfx1100", [0x06020702], "v_add_f32_e32 v1, v2, v3"),
        ("gfx1100", [0x800200FF, 0x12345678], "s_add_u32 s2, 0x12345678, s0"),
        ("gfx1201", [0xBFB00000], "s_endpgm"),
        ("gfx942", [0xBF8A0000], "s_barrier"),
    ],
)
def test_words_of_the_manuals(arch: str, words: list[int], text: str) -> None:
    code = b"".join(word.to_bytes(4, "little") for word in words)
    with amd_disasm.Disassembler(known(arch)) as found:
        check(found.one(code) == (len(code), text), str(found.one(code)))


def kernel_of(arch: str) -> str:
    if arch in amd_kernels.CDNA:
        return amd_kernels.mfma()
    return amd_kernels.add() if arch.startswith("gfx103") else amd_kernels.wmma(arch)


@needs_libllvm
@pytest.mark.parametrize("arch", amd_kernels.ARCHES)
def test_the_instructions_are_those_that_llvm_assembled(arch: str) -> None:
    for source in (kernel_of(known(arch)), amd_kernels.reverse()):
        wanted = amd_toolbox.instructions(amd_toolbox.assembly(source, arch))
        lines = list(amd_disasm.instructions(load(source, arch)))
        got = [line.text.split()[0] for line in lines]
        check(got == [line.split()[0] for line in wanted], f"{got}")
        check(sum(len(line.code) for line in lines) == lines[-1].end, "no gap")


@needs_libllvm
def test_branches_say_where_they_go() -> None:
    lines = disassemble(load(amd_kernels.add(), known("gfx1100")))
    (branch,) = [line for line in lines if line.jump]
    check(branch.text.startswith("s_cbranch_execz"), branch.text)
    end = next(line for line in lines if line.text == "s_endpgm")
    check(branch.target == end.address and end.label == "L0", str(end))
    check(lines[0].label == "k", "the kernel's name stands at its first instruction")


@needs_libllvm
def test_a_branch_backwards() -> None:
    # src: RDNA3 ISA, SOPP: S_BRANCH is 0xBFA0, its distance counts words from the next one
    code = (0xBFA0FFFF).to_bytes(4, "little")
    with amd_disasm.Disassembler(known("gfx1100")) as found:
        (line,) = list(found.all(code, 0x40))
    check(isinstance(line, Instruction) and line.target == 0x40 and line.jump, str(line))


@needs_libllvm
def test_what_llvm_does_not_know_is_data() -> None:
    with amd_disasm.Disassembler(known("gfx1100")) as found:
        (line,) = list(found.all((0xFFFFFFFF).to_bytes(4, "little")))
    check(line.text == ".long 0xffffffff", line.text)
    with pytest.raises(Unsupported, match="closed"):
        found.one(bytes(4))


@needs_libllvm
def test_unknown_chips(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Unsupported, match="gfx1100"):
        amd_disasm.Disassembler("gfx1099")
    check(capfd.readouterr().err == "", "LLVM was not asked")


def test_without_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(amd_disasm, "DIRECTORIES", (str(tmp_path),))
    with pytest.raises(NotFound, match="libllvm19"):
        amd_disasm.find()


@needs_libllvm
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known("gfx1100")
    check(disasm.main([str(amd_toolbox.POINTERS_LINKED)]) == 0, "a linked code object")
    out = capsys.readouterr().out
    check("k for gfx1100: 112 bytes" in out and "s_endpgm" in out, out)
    source = tmp_path / "kernel.ll"
    source.write_text(amd_kernels.reverse())
    check(disasm.main([str(source), "--arch", "gfx1100"]) == 0, "a source")
    check("s_barrier" in capsys.readouterr().out, "its code")
    source.with_suffix(".c").write_text("void k(void) {}")
    check(disasm.main([str(source.with_suffix(".c")), "--arch", "gfx1100"]) == 1, "no compiler")
    check("Give a .ll or .hip file" in capsys.readouterr().err, "what to give")
