"""Families of targets: one that no driver has is built, cached and listed like the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from compilers import cache, disasm, families, toolchains
from compilers import dtype as dt
from compilers import expr as ex
from compilers import index as ix
from compilers.amd import family as amd_family
from compilers.cpu import family as cpu_family
from compilers.families import TargetFamily, Toolchain
from compilers.gpu_target import GpuTarget
from compilers.index import Var
from compilers.instruction import Instruction
from compilers.ir import Kernel, Loop, Ref, Store
from compilers.lower.choose import Target
from compilers.msl import family as msl_family
from compilers.nv import cuda_family
from compilers.nv import family as nv_family
from compilers.objects import listing
from compilers.opencl import family as opencl_family
from compilers.qcom import family as qcom_family
from compilers.wgsl import family as wgsl_family
from drivers.base.contracts import Binary, Limits
from drivers.base.errors import MalformedInput, Unsupported
from drivers.base.limits import VECTORS
from tests.support import check

MAGIC = b"NULL"
GPU = GpuTarget(max_block=1024, shared_bytes=64 << 10)


class NullCompiler:
    """Its machine code is one byte for each line of the source: how long the line is."""

    def __init__(self) -> None:
        self.compiled: list[tuple[str, str]] = []

    def identity(self) -> bytes:
        return b"null 1"

    def compile_object(self, source: str, arch: str, features: frozenset[str]) -> bytes:
        self.compiled.append((source, arch))
        return MAGIC + bytes(map(len, source.splitlines()))


def _load(blob: bytes, name: str, arch: str) -> Binary:
    if not blob.startswith(MAGIC):
        raise MalformedInput("not an object of the null family")
    return Binary(arch, name, blob.removeprefix(MAGIC), 0)


def _instructions(binary: Binary) -> Iterator[Instruction]:
    for at, byte in enumerate(binary.image):
        yield Instruction(
            at, bytes([byte]), f"line {byte}", target=0 if at == 2 else None, jump=at == 2
        )


def _render(kernel: Kernel, arch: str, features: frozenset[str]) -> str:
    return f"kernel {kernel.name}\nfor {arch}\nend\n"


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> NullCompiler:
    made = NullCompiler()
    family = TargetFamily(
        name="NULL",
        toolchains={
            "NULLC": Toolchain(compiler=made, render=_render, suffix=".null", modules=()),
        },
        load=_load,
        functions=lambda blob, arch: ["first"],
        instructions=_instructions,
        arch_of=lambda blob: "null1" if blob.startswith(MAGIC) else None,
        gpu=lambda arch: GPU,
    )
    monkeypatch.setitem(families.FAMILIES, "null", lambda: family)
    store = cache.Cache(str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "default", lambda: store)
    return made


def _kernel() -> Kernel:
    out, item = Ref("out", dt.float32, 8, "global"), Var("i", 8)
    store = Store(out, ix.var(item), ex.const(1.0, dt.float32))
    return Kernel("ones", (out,), (), Loop(item, "item", (store,)), 32)


def test_a_kernel_of_another_family_is_built(compiler: NullCompiler) -> None:
    """A kernel with workgroups is not AMD's: its target's family compiles it, once."""
    for _ in range(2):
        found = toolchains.build(_kernel(), "NULLC", "null1", frozenset())
        check(found.image == bytes([11, 9, 3]) and found.resources.block == 32, f"{found}")
    check(compiler.compiled == [("kernel ones\nfor null1\nend\n", "null1")], "then from the cache")


def test_its_code_is_listed(compiler: NullCompiler, tmp_path: Path) -> None:
    binary = toolchains.build(_kernel(), "NULLC", "null1", frozenset())
    lines = listing.disassemble(binary)
    check([line.text for line in lines] == ["line 11", "line 9", "line 3"], f"{lines}")
    check(all(line.hot for line in lines) and lines[2].note == "ones", "the loop around")


def test_the_command_knows_its_files(
    compiler: NullCompiler, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, made = tmp_path / "k.null", tmp_path / "k.bin"
    source.write_text("one\n")
    made.write_bytes(MAGIC + b"\x01\x02")
    check(disasm.main([str(source), "--arch", "null1"]) == 0, "a source")
    check("first for null1: 1 bytes" in capsys.readouterr().out, "compiled")
    check(disasm.main([str(made)]) == 0, "an object, which says its chip")
    check("first for null1: 2 bytes" in capsys.readouterr().out, "loaded")
    wrong = tmp_path / "k.hip"
    wrong.write_text("void k() {}")
    check(disasm.main([str(wrong), "--arch", "null1"]) == 1, "another family's source")
    check("Give a .null file" in capsys.readouterr().err, "what to give")


def test_unknown_names_are_refused(compiler: NullCompiler) -> None:
    with pytest.raises(Unsupported, match="no compiler for 'sparc'"):
        toolchains.build(_kernel(), "LLVM", "sparc", frozenset())
    with pytest.raises(Unsupported, match="no compiler 'HIP' for null1"):
        toolchains.build(_kernel(), "HIP", "null1", frozenset())
    with pytest.raises(Unsupported, match="x86_64 is no GPU"):
        Target.gpu_of("x86_64", 4)


def test_a_device_says_how_large_its_workgroups_are(compiler: NullCompiler) -> None:
    """The family knows the chip, the device what of it may be used."""
    limits = Limits(
        frozenset({"float32"}), 0, threads=3, max_block=128, shared_bytes=999, wave_lanes=1,
        max_grid=(65535, 1, 1), max_params=8, store_bytes=4, features=frozenset({"subgroups"}),
    )  # fmt: skip
    target = Target.of(limits, "null1")
    want = GpuTarget(
        max_block=128, shared_bytes=999, max_groups=65535, wide_integers=False
    )  # fmt: skip
    check(target.gpu == want and target.lanes == want, "waves of one lane are unknown ones")
    found = target.max_params, target.store_bytes, target.dtypes
    check(found == (8, 4, {"float32"}), f"{found}")
    for width in (0, 32):
        gpu = Target.of(replace(limits, wave_lanes=width), "null1").gpu
        check(gpu == replace(want, wave_lanes=width or None), f"{gpu}")
    check(Target.of(limits, "x86_64").gpu is None, "a CPU has no workgroups")


def test_a_family_says_what_its_compiler_offers_on_a_device(
    compiler: NullCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Swaps where a feature is there, which the device says, not the architecture."""

    def offered(gpu: GpuTarget, limits: Limits) -> GpuTarget:
        return replace(gpu, swaps="subgroups" in limits.features)

    family = replace(families.family_of("null1"), offered=offered)
    monkeypatch.setitem(families.FAMILIES, "null", lambda: family)
    limits = Limits(frozenset(), 0, max_block=128, wave_lanes=16)
    for features, lanes in ((frozenset[str](), 1), (frozenset({"subgroups"}), 16)):
        gpu = Target.of(replace(limits, features=features), "null1").lanes
        check(gpu is not None and gpu.swap_lanes == lanes, f"{gpu}")


def test_a_cpu_behind_a_gpus_interface(compiler: NullCompiler) -> None:
    """It has workgroups, which vectors compute for."""
    limits = Limits(frozenset(), 0, max_block=128, schedule=VECTORS)
    target = Target.of(limits, "null1")
    check(target.gpu is not None and target.gpu.vectors, "the family's GPU")
    check(target.lanes is None, "no lanes share work")


def test_every_family_is_complete() -> None:
    found = families.every_family()
    known = [cpu_family.FAMILY, amd_family.FAMILY, nv_family.FAMILY, opencl_family.PROCESSOR]
    known.insert(3, cuda_family.FAMILY)
    known += [opencl_family.GPU, msl_family.FAMILY, wgsl_family.FAMILY, qcom_family.FAMILY]
    check(found == known, "each once")
    for family in found:
        for toolchain in family.toolchains.values():
            check(toolchain.suffix.startswith("."), toolchain.suffix)
            for module in toolchain.modules:
                spec = find_spec(module)
                check(spec is not None and bool(spec.origin), f"no module {module}")
