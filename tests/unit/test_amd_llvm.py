"""LLVM for AMD GPUs: code for the named chip, and errors where LLVM would end the process."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from compilers import amd_llvm, amd_object
from compilers.amd_intrinsics import unknown
from compilers.amd_targets import TARGETS, amd_target
from drivers.base.errors import CompileError, Unsupported
from tests import amd_kernels, amd_toolbox
from tests.support import check

NONE: frozenset[str] = frozenset()
ADD = amd_kernels.add()


def calling(declaration: str) -> str:
    return f"declare {declaration}\ndefine amdgpu_kernel void @k() {{ ret void }}"


@pytest.mark.parametrize("arch", amd_kernels.ARCHES)
def test_the_chip_is_in_the_flags(arch: str) -> None:
    blob = amd_llvm.compile_object(ADD, arch, NONE)
    # src: LLVM BinaryFormat/ELF.h, EF_AMDGPU_MACH_AMDGCN_GFX...
    mach = {
        "gfx1030": 0x36, "gfx1100": 0x41, "gfx1101": 0x46, "gfx1102": 0x47, "gfx1200": 0x48,
        "gfx1201": 0x4E, "gfx942": 0x4C, "gfx950": 0x4F,
    }  # fmt: skip
    check(blob[48] == mach[arch], hex(blob[48]))
    check(blob[8] == 3, f"code object version 5 is ABI version 3, not {blob[8]}")
    check(amd_object.arch_of(blob) == arch and amd_object.kernels(blob) == ["k"], "its names")


def test_a_module_may_choose_its_code_object_version() -> None:
    flag = '!{i32 1, !"amdhsa_code_object_version", i32 600}'
    source = f"{ADD}\n!llvm.module.flags = !{{!0}}\n!0 = {flag}\n"
    check(amd_llvm.compile_object(source, "gfx1100", NONE)[8] == 4, "ABI version 4")


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1102", "gfx1200", "gfx1201"])
def test_wmma(arch: str) -> None:
    amd_object.load(amd_llvm.compile_object(amd_kernels.wmma(arch), arch, NONE), "k", arch)
    said = amd_toolbox.instructions(amd_toolbox.assembly(amd_kernels.wmma(arch), arch))
    check(any("v_wmma_f32_16x16x16_f16" in line for line in said), "the matrix instruction")


@pytest.mark.parametrize("arch", amd_kernels.CDNA)
def test_mfma(arch: str) -> None:
    amd_object.load(amd_llvm.compile_object(amd_kernels.mfma(), arch, NONE), "k", arch)
    said = amd_toolbox.instructions(amd_toolbox.assembly(amd_kernels.mfma(), arch))
    check(any("v_mfma_f32_16x16x16_f16" in line for line in said), "the matrix instruction")


@pytest.mark.parametrize(
    ("source", "arch", "reason"),
    [
        (amd_kernels.wmma("gfx1100"), "gfx1030", "wmma"),
        (amd_kernels.wmma("gfx1100"), "gfx1201", "wmma"),
        (amd_kernels.wmma("gfx1201"), "gfx1100", "wmma"),
        (amd_kernels.mfma(), "gfx1100", "mfma"),
        (amd_kernels.wmma("gfx1100"), "gfx942", "wmma"),
        (calling("double @llvm.sin.f64(double)"), "gfx1100", "llvm.sin.f64"),
        (calling("float @sinf(float)"), "gfx1100", "sinf"),
        ('define amdgpu_kernel void @k() { call void asm sideeffect "", ""() ret void }',
         "gfx1100", "assembly"),
        ('module asm "x"\ndefine amdgpu_kernel void @k() { ret void }', "gfx1100", "assembly"),
        (ADD + "@big = internal addrspace(3) global [16385 x float] poison", "gfx1100", "65552"),
        ("define bad", "gfx1100", "expected"),
        ("define amdgpu_kernel void @k() { ret i32 1 }", "gfx1100", "ret"),
        (ADD + "\0", "gfx1100", "NUL"),
    ],
)  # fmt: skip
def test_what_llvm_could_not_do_is_refused(source: str, arch: str, reason: str) -> None:
    with pytest.raises(CompileError, match=reason) as caught:
        amd_llvm.compile_object(source, arch, NONE)
    check(caught.value.source == source, "the source")
    check(caught.value.log, "a log")


@pytest.mark.parametrize("source", ["define amdgpu_kernel void @k() { ret i32 1 }", "broken"])
def test_errors_that_live_in_a_cycle(source: str) -> None:
    """LLVM wants a module disposed before its context, in whatever order Python collects."""
    for _ in range(20):
        with pytest.raises(CompileError) as caught:
            amd_llvm.compile_object(source, "gfx1100", NONE)
        caught.value.__dict__["itself"] = caught.value
        del caught
        gc.collect()
    check(amd_llvm.compile_object(ADD, "gfx1100", NONE), "LLVM is still there")


def test_a_chip_with_more_local_memory_may_use_it() -> None:
    source = amd_kernels.reverse(1024).replace("[1024 x float]", "[40960 x float]")
    blob = amd_llvm.compile_object(source, "gfx950", NONE)
    check(amd_object.load(blob, "k", "gfx950").resources["group_bytes"] == 160 << 10, "160 KiB")


def test_unknown_names_do_not_reach_llvm(capfd: pytest.CaptureFixture[str]) -> None:
    for arch in ("gfx1099", "gfx90a", "x86_64", ""):
        with pytest.raises(Unsupported, match="gfx1100"):
            amd_llvm.compile_object(ADD, arch, NONE)
    amd_llvm.compile_object(ADD, "gfx1100", frozenset({"bogus", "avx2", "+xnack"}))
    check(capfd.readouterr().err == "", "LLVM complains about unknown names")


@pytest.mark.parametrize("arch", amd_kernels.ARCHES)
def test_every_listed_feature_is_known_to_llvm(
    arch: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in sorted(amd_target(arch).generation.features):
        blob = amd_llvm.compile_object(ADD, arch, frozenset({name}))
        amd_object.load(blob, "k", arch)
    check(capfd.readouterr().err == "", "an unknown name is reported on stderr")


FLOAT, INT = "f32", "i32"
SHAPES = {  # src: LLVM LangRef, the generic intrinsics
    "float @llvm.{}.f32(float)": "sqrt fabs floor ceil trunc rint nearbyint roundeven round"
    " canonicalize exp exp2 exp10 log log2 log10 sin cos",
    "float @llvm.{}.f32(float, float)": "minnum maxnum copysign pow",
    "float @llvm.{}.f32(float, float, float)": "fma fmuladd",
    "double @llvm.{}.f64(double)": "sqrt fabs floor ceil trunc rint nearbyint roundeven round"
    " canonicalize",
    "double @llvm.{}.f64(double, double)": "minnum maxnum copysign",
    "half @llvm.{}.f16(half)": "sqrt floor trunc exp2 log2 sin",
    "i32 @llvm.{}.i32(i32)": "ctpop bitreverse bswap",
    "i64 @llvm.{}.i64(i64)": "ctpop bitreverse bswap",
    "i32 @llvm.{}.i32(i32, i32)": "umin umax smin smax uadd.sat usub.sat sadd.sat ssub.sat",
    "float @llvm.amdgcn.{}.f32(float)": "rcp rsq sqrt sin cos fract exp2 log",
    "i32 @llvm.amdgcn.{}(i32, i32)": "ds.bpermute ds.permute mbcnt.lo mbcnt.hi",
    "i32 @llvm.amdgcn.{}.i32(i32)": "readfirstlane",
    "i32 @llvm.amdgcn.{}()": "workitem.id.y workitem.id.z workgroup.id.z",
}
TYPES = {"float": "f32", "double": "f64", "half": "f16", "i32": "i32", "i64": "i64"}


def user(shape: str, name: str) -> str:
    """A kernel that calls one intrinsic on what it loads, and stores the result."""
    declared = shape.format(name)
    kind = declared.split()[0]
    count = declared.count(f"{kind},") + declared.count(f"{kind})")
    values = ", ".join(f"{kind} %x" for _ in range(count))
    call = declared.split("(")[0]
    return f"""declare {declared}
define amdgpu_kernel void @k(ptr addrspace(1) %a) {{
  %x = load {kind}, ptr addrspace(1) %a
  %y = call {call}({values})
  store {kind} %y, ptr addrspace(1) %a
  ret void
}}"""


@pytest.mark.parametrize("arch", ["gfx1030", "gfx1100", "gfx1201", "gfx942"])
def test_listed_intrinsics_compile(arch: str) -> None:
    """In a process of its own: LLVM ends it when one is listed by mistake."""
    sources = [user(shape, name) for shape, names in SHAPES.items() for name in names.split()]
    program = f"""
from compilers import amd_llvm, amd_object
for source in {sources!r}:
    blob = amd_llvm.compile_object(source, {arch!r}, frozenset())
    amd_object.load(blob, "k", {arch!r})
print("all")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    check(done.stdout == "all\n", done.stderr[-2000:])


@pytest.mark.parametrize("arch", sorted(TARGETS))
def test_unlisted_intrinsics(arch: str) -> None:
    target = amd_target(arch)
    names = ["llvm.amdgcn.s.getpc", "llvm.pow.f64", "llvm.x86.sse2.pause", "memcpy", "llvm.sin.f32"]
    check(unknown(names, target) == sorted(names[:4]), str(unknown(names, target)))
