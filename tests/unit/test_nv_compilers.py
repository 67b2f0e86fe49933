"""NVIDIA's compilers: what is refused before a library sees it, and their errors as ours."""

from __future__ import annotations

import pytest

from boards.nv.listing import functions
from compilers import disasm, toolchains
from compilers.families import family_of
from compilers.nv import disasm as nv_disasm
from compilers.nv import intrinsics, libraries, nvjitlink, nvrtc, ptx
from compilers.nv.matrix_forms import INSTRUCTIONS
from compilers.nv.targets import TARGETS, nv_target
from drivers.base.errors import CompileError, MalformedInput, NotFound, Unsupported
from tests import nv_cubins
from tests.nv_cubins import needs_nvdisasm, needs_nvjitlink, needs_nvrtc
from tests.support import check

KERNEL = 'extern "C" __global__ void k(int *p) { p[0] = 1; }'
IR = """define ptx_kernel void @k(ptr addrspace(1) %p) {
  store i32 1, ptr addrspace(1) %p
  ret void
}"""


@pytest.mark.parametrize("arch", ["sm_70", "sm_999", "sm_", "sm_86a"])
def test_unknown_architectures_are_refused_by_name(arch: str) -> None:
    """LLVM would end the process."""
    for compile_object, source in ((nvrtc.compile_object, KERNEL), (ptx.compile_object, IR)):
        with pytest.raises(Unsupported, match="no NVIDIA compiler") as error:
            compile_object(source, arch, frozenset())
        check("sm_121" in str(error.value), "the names there are")
    lowering = family_of(arch).gpu
    check(lowering is not None, "a GPU's family")
    with pytest.raises(Unsupported, match="no NVIDIA compiler"):
        _ = lowering and lowering(arch)


@needs_nvrtc
def test_nvrtc_rejects_with_its_log() -> None:
    with pytest.raises(CompileError, match="nvrtc rejects") as error:
        nvrtc.compile_object("__global__ void k() { nonsense; }", "sm_86", frozenset())
    check("nonsense" in error.value.log and "nonsense" in error.value.source, error.value.log)
    with pytest.raises(CompileError, match="NUL"):
        nvrtc.compile_object(KERNEL + "\0", "sm_86", frozenset())
    check(nvrtc.version() >= (12, 0), f"{nvrtc.version()}")
    check({target.sm for target in TARGETS.values()} <= nvrtc.known(), f"{nvrtc.known()}")


STRUCTURES = """
struct Odd { char a[11]; };
struct Wide { long long a[2]; int b; };
extern "C" __global__ void k(int *p, Odd odd, Wide wide, short s) { p[0] = odd.a[9] + wide.b + s; }
"""


@needs_nvrtc
def test_structures_are_passed_as_integers() -> None:
    """# src: CUDA C++ Programming Guide, kernel parameters have the layout of C: Odd at 8, Wide at
    24 with 4 bytes of padding at its end, s at 48"""
    blob = nvrtc.compile_object(STRUCTURES, "sm_86", frozenset())
    args = family_of("sm_86").load(blob, "k", "sm_86").resources.args or ()
    places = [(arg.offset, arg.nbytes, arg.buffer) for arg in args]
    odd = [(8, 8, False), (16, 2, False), (18, 1, False)]
    wide = [(24, 8, False), (32, 8, False), (40, 8, False)]
    check(places == [(0, 8, True), *odd, *wide, (48, 2, False)], f"{places}")


@needs_nvjitlink
def test_nvjitlink_rejects_with_its_log() -> None:
    text = ".version 7.0\n.target sm_80\n.address_size 64\n.entry k() { nonsense; }"
    with pytest.raises(CompileError, match="nvJitLink's") as error:
        nvjitlink.assembled(text, "sm_80")
    check(error.value.source == text and len(error.value.log) > 0, error.value.log)


@needs_nvjitlink
def test_a_module_that_llvm_takes_is_assembled() -> None:
    blob = ptx.compile_object(IR, "sm_86", frozenset())
    check(family_of("sm_86").functions(blob, "sm_86") == ["k"], "one kernel")
    check(".visible .entry k" in ptx.ptx_of(IR, "sm_86"), "PTX")


def test_what_would_end_the_process_is_refused() -> None:
    assembly = 'define void @k() {\ncall void asm sideeffect "exit;", ""()\nret void\n}'
    shared = "@s = internal addrspace(3) global [49153 x i8] poison"
    call = "declare {} @{}({})\ndefine void @k() {{\ncall {} @{}({})\nret void\n}}"
    gather = call.format(
        "{ i32, i32, i32, i32 }", "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3",
        "ptr addrspace(3)", "{ i32, i32, i32, i32 }",
        "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3", "ptr addrspace(3) null",
    )  # fmt: skip
    with pytest.raises(CompileError, match=r"sm_75 has no llvm\.nvvm\.ldmatrix"):
        ptx.ptx_of(gather, "sm_75")
    fence = "llvm.nvvm.wgmma.fence.sync.aligned"
    with pytest.raises(CompileError, match=f"sm_90 has no {fence}"):
        ptx.ptx_of(call.format("void", fence, "", "void", fence, ""), "sm_90")
    proxy = assembly.replace("exit;", "fence.proxy.async.shared::cta;")
    check("fence.proxy.async" in ptx.ptx_of(proxy, "sm_90a"), "known by its text")
    with pytest.raises(CompileError, match="inline assembly"):
        ptx.ptx_of(proxy, "sm_90")
    sine = call.format("float", "llvm.sin.f32", "float", "float", "llvm.sin.f32", "float 0.0")
    for text, rule in (
        (assembly, "inline assembly"),
        (shared, "49153 bytes of shared memory"),
        (sine, "sm_86 has no llvm.sin.f32"),
        (IR + "\0", "NUL"),
        ("nonsense", "LLVM rejects"),
    ):
        with pytest.raises(CompileError, match=rule) as error:
            ptx.ptx_of(text, "sm_86")
        check(error.value.source == text, "the module is in the error")


def test_intrinsics_by_architecture() -> None:
    """# src: PTX ISA, mma: bf16 and m16n8k16 from sm_80 on"""
    later = [made for made in INSTRUCTIONS.values() if made.intrinsic and made.form.depth >= 16]
    deep = [f"llvm.{made.intrinsic}" for made in later]
    check(len(deep) == 4, f"halves, and bytes with and without a sign: {deep}")
    check(intrinsics.unknown(deep, nv_target("sm_75")) == deep, "not on sm_75")
    check(intrinsics.unknown(deep, nv_target("sm_80")) == [], "on sm_80")
    names = ["llvm.fma.f32", "llvm.fma.v4f32", "llvm.nvvm.shfl.sync.bfly.i32", "llvm.ctpop.i32"]
    check(intrinsics.unknown(names, nv_target("sm_90a")) == [], "known")
    strangers = ["sinf", "llvm.exp.f32", "llvm.nvvm.wgmma.fence.sync.aligned"]
    check(intrinsics.unknown(strangers[2:], nv_target("sm_90a")) == [], "of sm_90a")
    check(intrinsics.unknown(strangers, nv_target("sm_90")) == strangers, "not known")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound, match=r"no libnothing\.so\.1 .*pip install"):
        libraries.find(("libnothing.so.1",))
    with pytest.raises(NotFound, match=r"no nvnothing .*pip install"):
        libraries.find_program("nvnothing")


@needs_nvrtc
def test_the_cache_has_it_the_second_time() -> None:
    first = toolchains.compile_source(KERNEL, "k", "NVRTC", "sm_86", frozenset())
    again = toolchains.compile_source(KERNEL, "k", "NVRTC", "sm_86", frozenset())
    check(first == again and first.arch == "sm_86", "equal")


@needs_nvdisasm
@pytest.mark.parametrize("arch", nv_cubins.ARCHES)
def test_the_command_shows_cubins(arch: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(nv_cubins.path_of(arch))
    check(disasm.main([path, "--name", "k"]) == 0, "shown")
    printed = capsys.readouterr().out
    check(f"k for {arch.removesuffix('a')}: " in printed, printed[:200])
    for phrase in ("BAR.SYNC", "EXIT", "STL", "ATOMG"):
        check(phrase in printed, phrase)


@pytest.mark.parametrize("arch", nv_cubins.ARCHES)
def test_the_command_without_nvdisasm(
    arch: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nv_disasm, "PROGRAM", "nvnothing")
    test_the_command_shows_cubins(arch, capsys)


@needs_nvdisasm
@pytest.mark.parametrize("arch", nv_cubins.ARCHES)
def test_both_decoders_agree(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = nv_cubins.path_of(arch).read_bytes()
    ((_, _, code),) = ((*found,) for found in functions(blob) if found[1] == "k")
    theirs = nv_disasm.listed(code, arch)
    monkeypatch.setattr(nv_disasm, "PROGRAM", "nvnothing")
    check(nv_disasm.listed(code, arch) == theirs, arch)


def test_an_architecture_that_no_decoder_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nv_disasm, "PROGRAM", "nvnothing")
    with pytest.raises(NotFound, match="nvnothing"):
        nv_disasm.listed(bytes(16), "sm_121")


@needs_nvdisasm
def test_words_that_are_no_instructions() -> None:
    with pytest.raises(MalformedInput, match="nvdisasm: "):
        nv_disasm.listed(bytes(range(64)), "sm_86")
