"""LLVM for AMD GPUs: code for the named chip, and errors where LLVM would end the process."""

from __future__ import annotations

import gc
import re
import subprocess
import sys

import pytest

from compilers.amd import code_object as amd_object
from compilers.amd import llvm as amd_llvm
from compilers.amd.intrinsics import unknown
from compilers.amd.targets import TARGETS, amd_target
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
        "gfx1201": 0x4E, "gfx942": 0x4C, "gfx950": 0x4F, "gfx1031": 0x37, "gfx1032": 0x38,
        "gfx90a": 0x3F, "gfx1103": 0x44, "gfx1150": 0x43, "gfx1151": 0x4A,
    }  # fmt: skip
    check(blob[48] == mach[arch], hex(blob[48]))
    check(blob[8] == 3, f"code object version 5 is ABI version 3, not {blob[8]}")
    check(amd_object.arch_of(blob) == arch and amd_object.kernels(blob) == ["k"], "its names")


def test_a_module_may_choose_its_code_object_version() -> None:
    flag = '!{i32 1, !"amdhsa_code_object_version", i32 600}'
    source = f"{ADD}\n!llvm.module.flags = !{{!0}}\n!0 = {flag}\n"
    check(amd_llvm.compile_object(source, "gfx1100", NONE)[8] == 4, "ABI version 4")


_ANYWHERE = """define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %b) {
  %v = load <16 x i8>, ptr addrspace(1) %a, align 1
  store <16 x i8> %v, ptr addrspace(1) %b, align 1
  ret void
}"""


@pytest.mark.parametrize("arch", amd_kernels.ARCHES)
def test_bytes_at_any_address_are_one_access(arch: str) -> None:
    """Memory is in UNALIGNED mode: 16 loads of a byte would be 16 times the instructions."""
    text = amd_toolbox.assembly(_ANYWHERE, arch, amd_target(arch).settings(NONE))
    said = [line for line in amd_toolbox.instructions(text) if line.startswith("global_")]
    check(len(said) == 2 and all(re.search("b128|dwordx4", line) for line in said), str(said))


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1102", "gfx1151", "gfx1200", "gfx1201"])
def test_wmma(arch: str) -> None:
    amd_object.load(amd_llvm.compile_object(amd_kernels.wmma(arch), arch, NONE), "k", arch)
    said = amd_toolbox.instructions(amd_toolbox.assembly(amd_kernels.wmma(arch), arch))
    check(any("v_wmma_f32_16x16x16_f16" in line for line in said), "the matrix instruction")


@pytest.mark.parametrize("arch", amd_kernels.CDNA)
def test_mfma(arch: str) -> None:
    amd_object.load(amd_llvm.compile_object(amd_kernels.mfma(), arch, NONE), "k", arch)
    said = amd_toolbox.instructions(amd_toolbox.assembly(amd_kernels.mfma(), arch))
    check(
        any(re.search("v_mfma_f32_16x16x16_?f16", line) for line in said), "the matrix instruction"
    )


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
    check(amd_object.load(blob, "k", "gfx950").resources.shared_bytes == 160 << 10, "160 KiB")


def test_unknown_names_do_not_reach_llvm(capfd: pytest.CaptureFixture[str]) -> None:
    for arch in ("gfx1099", "gfx908", "x86_64", ""):
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


SHAPES = {  # src: LLVM LangRef; IntrinsicsAMDGPU.td
    "float llvm.{}.f32(float)": "sqrt fabs floor ceil trunc rint nearbyint roundeven round"
    " canonicalize exp exp2 exp10 log log2 log10 sin cos",
    "float llvm.{}.f32(float, float)": "minnum maxnum copysign pow",
    "float llvm.{}.f32(float, float, float)": "fma fmuladd",
    "double llvm.{}.f64(double)": "sqrt fabs floor ceil trunc rint nearbyint roundeven round"
    " canonicalize",
    "double llvm.{}.f64(double, double)": "minnum maxnum copysign",
    "double llvm.{}.f64(double, double, double)": "fma",
    "half llvm.{}.f16(half)": "sqrt floor trunc exp2 log2 sin",
    "half llvm.{}.f16(half, half, half)": "fma",
    "<2 x half> llvm.{}.v2f16(<2 x half>, <2 x half>, <2 x half>)": "fma",
    "i32 llvm.{}.i32(i32)": "ctpop bitreverse bswap",
    "i64 llvm.{}.i64(i64)": "ctpop bitreverse bswap",
    "i32 llvm.{}.i32(i32, i1 0)": "ctlz cttz abs",
    "i32 llvm.{}.i32(i32, i32)": "umin umax smin smax uadd.sat usub.sat sadd.sat ssub.sat",
    "i32 llvm.{}.i32(i32, i32, i32)": "fshl fshr",
    "float llvm.amdgcn.{}.f32(float)": "rcp rsq sqrt sin cos fract exp2 log frexp.mant",
    "float llvm.amdgcn.{}.f32(float, float, float)": "fmed3 div.fixup",
    "i32 llvm.amdgcn.{}(i32, i32)": "ds.bpermute ds.permute mbcnt.lo mbcnt.hi",
    "i32 llvm.amdgcn.{}(i32, i32, i32)": "perm",
    "i32 llvm.amdgcn.{}.i32(i32, i32, i32)": "ubfe sbfe",
    "i32 llvm.amdgcn.{}(i32, i32 7)": "ds.swizzle",
    "i32 llvm.amdgcn.{}.i32(i32)": "readfirstlane",
    "i32 llvm.amdgcn.{}.i32(i32, i32)": "readlane",
    "i32 llvm.amdgcn.{}.i32(i32, i32 0)": "wave.reduce.umin wave.reduce.umax",
    "i32 llvm.amdgcn.{}.i32(i32, i32, i32 0, i32 15, i32 15, i1 1)": "update.dpp",
    "i32 llvm.amdgcn.{}()": "workitem.id.y workitem.id.z workgroup.id.z wavefrontsize",
}
_RDNA = {
    "i32 llvm.amdgcn.{}.i32(i32, i32, i32, i32, i1 0, i1 0)": "permlane16 permlanex16",
    "i32 llvm.amdgcn.{}.i32(i32, i32 7)": "mov.dpp8",
    "float llvm.amdgcn.{}(<2 x half>, <2 x half>, float, i1 0)": "fdot2",
}
_RDNA3 = _RDNA | {
    "float llvm.amdgcn.{}(<2 x bfloat>, <2 x bfloat>, float, i1 0)": "fdot2.f32.bf16",
    "i32 llvm.amdgcn.{}(i1 1, i32, i1 1, i32, i32, i1 0)": "sudot4",
    "i32 llvm.amdgcn.{}(i32, i32, i32, i1 0)": "udot4",
}
_IMM = "i32 0, i32 0, i32 0)"
_MFMA = {
    f"<16 x float> llvm.amdgcn.{{}}(<4 x half>, <4 x half>, <16 x float>, {_IMM}":
        "mfma.f32.32x32x8f16",
    f"<4 x float> llvm.amdgcn.{{}}(<4 x half>, <4 x half>, <4 x float>, {_IMM}":
        "mfma.f32.16x16x16f16",
    f"<16 x float> llvm.amdgcn.{{}}(<4 x i16>, <4 x i16>, <16 x float>, {_IMM}":
        "mfma.f32.32x32x8bf16.1k",
    f"<4 x float> llvm.amdgcn.{{}}(<4 x i16>, <4 x i16>, <4 x float>, {_IMM}":
        "mfma.f32.16x16x16bf16.1k",
    f"<4 x float> llvm.amdgcn.{{}}(float, float, <4 x float>, {_IMM}": "mfma.f32.16x16x4f32",
    f"<16 x float> llvm.amdgcn.{{}}(float, float, <16 x float>, {_IMM}": "mfma.f32.32x32x2f32",
    f"<4 x double> llvm.amdgcn.{{}}(double, double, <4 x double>, {_IMM}": "mfma.f64.16x16x4f64",
    f"<4 x i32> llvm.amdgcn.{{}}(i64, i64, <4 x i32>, {_IMM}": "mfma.i32.16x16x32.i8",
    f"<16 x i32> llvm.amdgcn.{{}}(i64, i64, <16 x i32>, {_IMM}": "mfma.i32.32x32x16.i8",
    "i32 llvm.amdgcn.{}(i32, i32, i32, i1 0)": "sdot4 udot4",
    "float llvm.amdgcn.{}(<2 x half>, <2 x half>, float, i1 0)": "fdot2",
}  # fmt: skip


def _wmma(half: str, brain: str, ints: str) -> dict[str, str]:
    kinds = {"<16 x half>": "v16f16", "<8 x half>": "v8f16", "<16 x i16>": "v16i16",
             "<8 x i16>": "v8i16", "<4 x i32>": "v4i32", "<2 x i32>": "v2i32"}  # fmt: skip
    total = "<8 x float>"
    floats = {
        f"{total} llvm.amdgcn.{{}}.v8f32.{kinds[kind]}({kind}, {kind}, {total})":
            f"wmma.f32.16x16x16.{name}"
        for kind, name in ((half, "f16"), (brain, "bf16"))
    }  # fmt: skip
    operands = f"i1 1, {ints}, i1 1, {ints}, <8 x i32>, i1 0"
    shape = f"<8 x i32> llvm.amdgcn.{{}}.v8i32.{kinds[ints]}({operands})"
    return floats | {shape: "wmma.i32.16x16x16.iu8"}


OWN = {
    "gfx1030": _RDNA | {"i32 llvm.amdgcn.{}(i32, i32, i32, i1 0)": "sdot4 udot4"},
    "gfx1100": _RDNA3 | _wmma("<16 x half>", "<16 x i16>", "<4 x i32>"),
    "gfx1201": _RDNA3 | _wmma("<8 x half>", "<8 x i16>", "<2 x i32>"),
    "gfx942": _MFMA,
    "gfx950": _MFMA,
}


def user(shape: str, name: str) -> str:
    """A kernel that calls one intrinsic on what it loads, and stores the result."""
    result, _, rest = shape.format(name).partition(" llvm.")
    called, _, listed = rest.removesuffix(")").partition("(")
    operands = listed.split(", ") if listed else []
    immediate = re.compile(r"(i\d+) (-?\d+)")
    types = [immediate.sub(r"\1", operand) for operand in operands]
    values = [
        operand if immediate.fullmatch(operand) else f"{operand} %x{number}"
        for number, operand in enumerate(operands)
    ]
    loads = [
        f"%x{number} = load volatile {operand}, ptr addrspace(1) %a"
        for number, operand in enumerate(operands)
        if not immediate.fullmatch(operand)
    ]
    return f"""declare {result} @llvm.{called}({", ".join(types)})
define amdgpu_kernel void @k(ptr addrspace(1) %a) {{
  {chr(10).join(loads)}
  %y = call {result} @llvm.{called}({", ".join(values)})
  store volatile {result} %y, ptr addrspace(1) %a
  ret void
}}"""


@pytest.mark.parametrize("arch", sorted(OWN))
def test_listed_intrinsics_compile(arch: str) -> None:
    """In a process of its own: LLVM ends it when one is listed by mistake."""
    shapes = [*SHAPES.items(), *OWN[arch].items()]
    sources = [user(shape, name) for shape, names in shapes for name in names.split()]
    program = f"""
from compilers.amd import llvm as amd_llvm; from compilers.amd import code_object as amd_object
for source in {sources!r}:
    print(source, flush=True)
    blob = amd_llvm.compile_object(source, {arch!r}, frozenset())
    amd_object.load(blob, "k", {arch!r})
print("all")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    check(done.stdout.endswith("\nall\n"), done.stdout[-600:] + done.stderr[-2000:])


@pytest.mark.parametrize("arch", sorted(TARGETS))
def test_unlisted_intrinsics(arch: str) -> None:
    target = amd_target(arch)
    names = ["llvm.amdgcn.s.getpc", "llvm.pow.f64", "llvm.x86.sse2.pause", "memcpy", "llvm.sin.f32"]
    check(unknown(names, target) == sorted(names[:4]), str(unknown(names, target)))


def test_a_name_is_not_another_one_with_a_type() -> None:
    dot = "llvm.amdgcn.fdot2.f32.bf16"
    for arch, wanted in (("gfx1030", [dot]), ("gfx942", [dot]), ("gfx1100", [])):
        check(unknown([dot], amd_target(arch)) == wanted, arch)
    check(
        unknown(["llvm.sqrt.f128", "llvm.sqrt.v4f16"], amd_target("gfx1100")) == ["llvm.sqrt.f128"],
        "types that the chip does not have",
    )
