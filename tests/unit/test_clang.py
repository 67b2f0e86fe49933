"""clang as a second compiler: same contract, errors with log and source."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest

from compilers.cache import Cache
from compilers.cpu import clang
from compilers.cpu.targets import target
from compilers.objects import elf
from compilers.toolchains import compile_source
from drivers.base.errors import CompileError, NotFound, Unsupported
from drivers.cpu.program import map_image
from drivers.world.linux import LinuxWorld
from tests.c_compiler import needs_clang
from tests.support import check

on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="runs x86-64 code")


SOURCE = """
#include <stdint.h>
static const float table[4] = {1.5f, -2.0f, 0.25f, 8.0f};
float sinf(float);
void k(const uint64_t *args, uint64_t begin, uint64_t end, void *scratch) {
  float *out = (float *)args[0];
  const float *in = (const float *)args[1];
  for (uint64_t i = begin; i < end; i++) out[i] = in[i] * table[i % 4] + sinf(in[i]);
}"""


@on_x86
@needs_clang
def test_a_kernel_runs(tmp_path: Path) -> None:
    store = Cache(str(tmp_path / "kernels"))
    binary = compile_source(SOURCE, "k", "CLANG", "x86_64", frozenset(), store)
    world = LinuxWorld()
    region = map_image(world, binary, "x86_64")
    source, result = np.linspace(-3, 3, 64, dtype=np.float32), np.zeros(64, np.float32)
    args = np.array([result.ctypes.data, source.ctypes.data], np.uint64)
    world.function(region.cpu_va + binary.entry, 4)(args.ctypes.data, 0, 48, 0)
    region.close()
    expected = source * np.resize(np.array([1.5, -2.0, 0.25, 8.0], np.float32), 64) + np.sin(source)
    np.testing.assert_allclose(result[:48], expected[:48], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(result[48:], 0)


@needs_clang
def test_errors_carry_log_and_source() -> None:
    with pytest.raises(CompileError, match="error:") as caught:
        clang.compile_object("int k( {", "x86_64", frozenset())
    check(caught.value.source == "int k( {", "the source")
    check("expected" in caught.value.log, "clang's words")


@needs_clang
def test_every_known_feature_is_accepted() -> None:
    source = "void k(void) {}"
    every = target("x86_64").features
    elf.load(clang.compile_object(source, "x86_64", every | {"bogus"}), "k", "x86_64")
    elf.load(clang.compile_object(source, "aarch64", frozenset({"neon"})), "k", "aarch64")
    with pytest.raises(Unsupported):
        clang.compile_object(source, "vax", frozenset())


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clang, "WHEEL", "unbound_has_no_such_package")


@pytest.mark.usefixtures("no_wheel")
def test_without_clang(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for path in (str(tmp_path), "", "relative"):
        monkeypatch.setenv("PATH", path)
        with pytest.raises(NotFound, match="LLVM"):
            clang.find()


def test_the_clang_of_the_wheel_is_the_last_choice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(clang, "WHEEL", "wheel_with_a_clang")
    monkeypatch.syspath_prepend(tmp_path)
    zig = tmp_path / "wheel_with_a_clang" / "zig"
    zig.parent.mkdir()
    (zig.parent / "__init__.py").touch()
    zig.write_text('#!/bin/sh\necho "$1"\n')
    zig.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    check(clang.find()[:2] == [str(zig), "clang"], str(clang.find()))
    check(clang.compile_object("int k;", "x86_64", frozenset()) == b"clang\n", "zig clang ...")
    check(clang.identity().startswith(b"zig "), "the wheel's binary is what is identified")
    program = tmp_path / "programs" / "clang-19"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    check(clang.find() == [str(program)], "PATH comes first")


@pytest.mark.usefixtures("no_wheel")
def test_versioned_names_are_found_and_identified(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "clang-19"
    program.write_text("#!/bin/sh\nexec sleep 30\n")
    (tmp_path / "clang").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    program.chmod(0o644)
    with pytest.raises(NotFound):
        clang.find()
    program.chmod(0o755)
    check(clang.find() == [str(program)], "clang-19")
    first = clang.identity()
    program.write_text("#!/bin/sh\nexec sleep 300\n")
    check(clang.identity() != first, "another file is another compiler")


def test_a_clang_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "clang"
    program.write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(clang, "TIMEOUT_S", 0.2)
    with pytest.raises(CompileError, match="did not end"):
        clang.compile_object("int k;", "x86_64", frozenset())


def test_no_fast_math() -> None:
    line = clang.arguments(target("x86_64"), frozenset())
    check(not any("fast" in word or "unsafe" in word for word in line), str(line))
    check("-ffp-contract=off" in line, "no contraction")
