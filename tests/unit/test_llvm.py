"""LLVM in process: code for the named machine, and errors instead of an abort."""

from __future__ import annotations

import pytest

from compilers.cpu import llvm
from compilers.cpu.targets import TARGETS, target
from compilers.objects import elf
from compilers.objects.listing import disassemble
from drivers.base.errors import CompileError, MalformedInput, Unsupported
from tests.support import check

V3 = frozenset({"avx2", "fma", "bmi2"})
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
SCALAR_LOOP = """
define void @k(ptr noalias %a, ptr noalias %b, i64 %n) {attributes} {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %p = getelementptr float, ptr %a, i64 %i
  %q = getelementptr float, ptr %b, i64 %i
  %v = load float, ptr %p
  %w = fmul float %v, %v
  store float %w, ptr %q
  %next = add i64 %i, 1
  %go = icmp ult i64 %next, %n
  br i1 %go, label %loop, label %done
done:
  ret void
}}"""
WIDE = '"prefer-vector-width"="512" "min-legal-vector-width"="512"'


def text_of(source: str, features: frozenset[str]) -> str:
    binary = elf.load(llvm.compile_object(source, "x86_64", features), "k", "x86_64")
    return "\n".join(line.text for line in disassemble(binary))


@pytest.mark.parametrize(
    ("features", "register"),
    [(V4, "zmm"), (V3, "ymm"), (frozenset(), "xmm")],
)
def test_loops_use_the_widest_registers(features: frozenset[str], register: str) -> None:
    listing = text_of(SCALAR_LOOP.format(attributes=WIDE), features)
    check(register in listing, f"no {register}")
    wider = {"zmm": [], "ymm": ["zmm"], "xmm": ["zmm", "ymm"]}[register]
    check(not any(name in listing for name in wider), f"wider than {register}")


def test_explicit_512_bit_vectors_need_no_attribute() -> None:
    listing = text_of(
        """define void @k(ptr %a) {
  %v = load <16 x float>, ptr %a
  %w = fadd <16 x float> %v, %v
  store <16 x float> %w, ptr %a
  ret void
}""",
        V4,
    )
    check("zmm" in listing, "512-bit registers")


def test_multiplication_and_addition_are_not_contracted() -> None:
    listing = text_of(
        """define float @k(float %a, float %b, float %c) {
  %m = fmul float %a, %b
  %s = fadd float %m, %c
  ret float %s
}""",
        V4,
    )
    check("vfmadd" not in listing, "two roundings were asked for")


def test_a_module_without_the_function() -> None:
    with pytest.raises(MalformedInput, match="no 'k'"):
        elf.load(llvm.compile_object("", "x86_64", frozenset()), "k", "x86_64")


@pytest.mark.parametrize(
    "source", ["define bad", "define void @k() { ret i32 1 }", "define void @k() { ret void }\0;"]
)
def test_wrong_modules_raise_with_log_and_source(source: str) -> None:
    with pytest.raises(CompileError) as caught:
        llvm.compile_object(source, "x86_64", frozenset())
    check(caught.value.source == source, "the source")
    check(caught.value.log, "LLVM's words")


def test_unknown_names_do_not_reach_llvm(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Unsupported, match="x86_64, aarch64"):
        llvm.compile_object("", "vax", frozenset())
    source = "define void @k() { ret void }"
    llvm.compile_object(source, "x86_64", frozenset({"no-such-feature", "avx512f"}))
    check(capfd.readouterr().err == "", "LLVM complains about unknown features")


@pytest.mark.parametrize("arch", sorted(TARGETS))
def test_every_listed_name_is_known_to_llvm(arch: str, capfd: pytest.CaptureFixture[str]) -> None:
    source = "define void @k() { ret void }"
    for name in sorted(target(arch).features):
        llvm.compile_object(source, arch, frozenset({name}))
    for _, needs in target(arch).levels:
        llvm.compile_object(source, arch, needs)
    check(capfd.readouterr().err == "", "an unknown name is reported on stderr")


@pytest.mark.parametrize(
    ("features", "name"),
    [
        ("", "x86-64"),
        ("sse4.2 popcnt", "x86-64-v2"),
        ("avx2 fma", "x86-64"),
        ("avx2 fma bmi2 sse4.2", "x86-64-v3"),
        ("avx2 fma bmi2 avx512f avx512bw avx512cd avx512dq avx512vl", "x86-64-v4"),
    ],
)
def test_levels(features: str, name: str) -> None:
    check(target("x86_64").cpu(frozenset(features.split())) == name, name)


def test_identity_is_the_installed_version() -> None:
    from importlib.metadata import version

    check(version("llvmlite").encode() in llvm.identity(), "the version is part of it")
