"""The same random C compiled for the host and for amdgcn gives the same bits.

`C_KERNELS=2000 C_KERNELS_SEED=1 pytest tests/boards/test_c_kernels.py` tries more, or others.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import pytest

from boards.amd.wave.types import WaveFault
from tests.boards.c_kernel_compile import compile_bitcode
from tests.boards.c_kernel_maker import (
    FLOATS_IN,
    FLOATS_OUT,
    INTEGERS_IN,
    INTEGERS_OUT,
    ITEMS,
    unit,
)
from tests.boards.wave_harness import Loaded, launch
from tests.c_compiler import clang_command, needs_clang
from tests.host_code import addresses
from tests.share import part
from tests.support import check

_UNIT = 25
_KERNELS = part(200, _UNIT)
_CHIPS = {
    "gfx1100": int(os.environ.get("C_KERNELS", _KERNELS)),
    "gfx1030": _UNIT, "gfx1201": _UNIT, "gfx942": _UNIT,
}  # fmt: skip
_FIRST = {"gfx1030": 1000, "gfx1201": 2000, "gfx942": 4000}
_SEED = int(os.environ.get("C_KERNELS_SEED", "0")) * 1_000_000
_TIMEOUT_S = 120
_COMMON = ["-O1", "-fwrapv", "-ffp-contract=off", "-fno-builtin", "-w", "-c", "-o"]
_GPU = [
    "-x", "cl", "-cl-std=CL1.2", "-DGPU", "--target=amdgcn-amd-amdhsa", "-mcpu=gfx1030",
    "-nogpulib", "-cl-no-stdinc", "-cl-fp32-correctly-rounded-divide-sqrt", "-emit-llvm",
]  # fmt: skip
pytestmark = needs_clang


def _clang(source: Path, output: Path, *flags: str) -> bytes:
    done = subprocess.run(
        [*clang_command(), *flags, *_COMMON, str(output), str(source)],
        capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(f"clang refuses the kernels: {done.stderr}")
    return output.read_bytes()


def _inputs(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    integers = rng.integers(-(1 << 63), 1 << 63, (ITEMS, INTEGERS_IN))
    integers >>= rng.integers(0, 64, integers.shape)
    edges = np.array([0, 1, -1, 127, -128, 255, 1 << 31, -(1 << 31), 1 << 62], np.int64)
    at = rng.random(integers.shape) < 0.15
    integers[at] = rng.choice(edges, int(at.sum()))
    floats = rng.standard_normal((ITEMS, FLOATS_IN)) * 2.0 ** rng.integers(
        -30, 30, (ITEMS, FLOATS_IN)
    )
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 1e-40, 3e38, 1.0, -7.0])
    at = rng.random(floats.shape) < 0.15
    floats[at] = rng.choice(special, int(at.sum()))
    return integers, floats


def _results() -> tuple[Any, Any]:
    return np.zeros((ITEMS, INTEGERS_OUT), np.int64), np.zeros((ITEMS, FLOATS_OUT), np.float64)


def _run_on_host(address: int, integers: Any, floats: Any) -> tuple[Any, Any]:
    ffi = cffi.FFI()
    out, fout = _results()
    function = ffi.cast("void (*)(void *, void *, void *, void *)", address)
    function(*[ffi.cast("void *", a.ctypes.data) for a in (integers, floats, out, fout)])
    return out, fout


def _compare(name: str, found: tuple[Any, Any], expected: tuple[Any, Any]) -> None:
    np.testing.assert_array_equal(found[0], expected[0], name)
    np.testing.assert_array_equal(found[1], expected[1], name)
    signs = np.signbit(found[1]) == np.signbit(expected[1])
    check((signs | np.isnan(expected[1])).all(), f"{name}: the sign of a zero differs")


def _units(chip: str) -> Iterator[range]:
    start = _SEED + _FIRST.get(chip, 0)
    for first in range(start, start + _CHIPS[chip], _UNIT):
        yield range(first, first + _UNIT)


@pytest.mark.parametrize(
    ("chip", "seeds"), [(c, s) for c in _CHIPS for s in _units(c)],
    ids=lambda v: v if isinstance(v, str) else f"{v.start}-{v.stop - 1}",
)  # fmt: skip
def test_host_and_gpu_agree(chip: str, seeds: range, tmp_path: Path) -> None:
    source = tmp_path / "unit.c"
    source.write_text(unit(seeds))
    host_code = _clang(source, tmp_path / "host.o", "-x", "c", "-fPIC")
    bitcode = tmp_path / "gpu.bc"
    _clang(source, bitcode, *_GPU)
    blob = compile_bitcode(bitcode, chip)
    different = 0
    names = [f"k{seed}" for seed in seeds]
    for seed, name, host in zip(seeds, names, addresses(host_code, names), strict=True):
        integers, floats = _inputs(seed)
        expected = _run_on_host(host, integers, floats)
        out, fout = _results()
        try:
            report = launch(
                "", [integers, floats, out, fout], (ITEMS // 32, 1, 1), cpu=chip,
                loaded=Loaded(blob, name),
            )  # fmt: skip
        except WaveFault as fault:
            raise AssertionError(f"{name} on {chip}: {fault}") from fault
        # Compilers read registers whose value they do not care for: not counted here.
        found = [str(f) for f in report.violations if f.kind != "uninitialised"]
        check(not found, f"{name}: {found}")
        _compare(f"{name} on {chip}", (out, fout), expected)
        different += len(np.unique(out)) > ITEMS
    check(different > len(seeds) // 2, "most kernels compute next to nothing")
