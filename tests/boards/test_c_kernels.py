"""The same random C compiled for the host and for amdgcn gives the same bits.

`make test-all` tries 275 kernels in some 80 s of CPU, because they find what lists of instructions
miss: each is compiled twice and differs from every other. `make test` tries 8.

`C_KERNELS=2000 C_KERNELS_SEED=1 pytest tests/boards/test_c_kernels.py` tries more, or others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from boards.amd.wave.types import WaveFault
from tests.boards.c_kernel_compile import compile_bitcode
from tests.boards.c_kernel_host import compare, compiled_c, inputs, results, run_on_host
from tests.boards.c_kernel_maker import ITEMS, unit
from tests.boards.wave_harness import Loaded, launch
from tests.c_compiler import needs_clang
from tests.host_code import addresses
from tests.share import part
from tests.support import check

_UNIT = part(25, 8)
_KERNELS = part(200, _UNIT)
_CHIPS = {
    "gfx1100": int(os.environ.get("C_KERNELS", _KERNELS)),
    "gfx1030": _UNIT, "gfx1201": _UNIT, "gfx942": _UNIT,
}  # fmt: skip
_FIRST = {"gfx1030": 1000, "gfx1201": 2000, "gfx942": 4000}
_SEED = int(os.environ.get("C_KERNELS_SEED", "0")) * 1_000_000
_GPU = [
    "-x", "cl", "-cl-std=CL1.2", "-DGPU", "--target=amdgcn-amd-amdhsa", "-mcpu=gfx1030",
    "-nogpulib", "-cl-no-stdinc", "-cl-fp32-correctly-rounded-divide-sqrt", "-emit-llvm",
]  # fmt: skip
pytestmark = needs_clang


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
    host_code = compiled_c(source, tmp_path / "host.o", "-x", "c", "-fPIC")
    bitcode = tmp_path / "gpu.bc"
    compiled_c(source, bitcode, *_GPU)
    blob = compile_bitcode(bitcode, chip)
    different = 0
    names = [f"k{seed}" for seed in seeds]
    for seed, name, host in zip(seeds, names, addresses(host_code, names), strict=True):
        integers, floats = inputs(seed)
        expected = run_on_host(host, integers, floats)
        out, fout = results()
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
        compare(f"{name} on {chip}", (out, fout), expected)
        different += len(np.unique(out)) > ITEMS
    check(different > len(seeds) // 2, "most kernels compute next to nothing")
