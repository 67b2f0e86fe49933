"""The same random C compiled for the host, for sm_86 and for sm_90a gives the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compilers.nv import nvrtc
from tests.boards.c_kernel_host import compare, compiled_c, inputs, results, run_on_host
from tests.boards.c_kernel_maker import ITEMS, unit
from tests.boards.nv_c_kernels import cuda_unit
from tests.boards.nv_warp_harness import kernel_of, run
from tests.c_compiler import needs_clang
from tests.host_code import addresses
from tests.nv_cubins import needs_nvrtc
from tests.share import part
from tests.support import check

pytestmark = [needs_clang, needs_nvrtc]
_UNIT = 25
_FIRST, _KERNELS = 6000, part(200, _UNIT)
_BLOCK = 32
_ARCHES = ("sm_86", "sm_90a")


@pytest.mark.parametrize("arch", _ARCHES)
@pytest.mark.parametrize("first", range(_FIRST, _FIRST + _KERNELS, _UNIT))
def test_host_and_gpu_agree(first: int, arch: str, tmp_path: Path) -> None:
    seeds = range(first, first + _UNIT)
    source = tmp_path / "unit.c"
    source.write_text(unit(seeds))
    host_code = compiled_c(source, tmp_path / "host.o", "-x", "c", "-fPIC")
    cubin = nvrtc.compile_object(cuda_unit(seeds), arch, frozenset())
    names = [f"k{seed}" for seed in seeds]
    different = 0
    for seed, name, host in zip(seeds, names, addresses(host_code, names), strict=True):
        integers, floats = inputs(seed)
        expected = run_on_host(host, integers, floats)
        args = [integers, floats, *results()]
        grid, block = (ITEMS // _BLOCK, 1, 1), (_BLOCK, 1, 1)
        buffers, found = run(kernel_of(cubin, name, arch), args, grid, block)
        # Compilers read registers whose value they do not care for: not counted here.
        found = [each for each in found if each[0] != "register that was never written"]
        check(not found, f"{name}: {found[:3]}")
        got = [x.reshape(y.shape) for x, y in zip(buffers[2:], expected, strict=True)]
        compare(name, (got[0], got[1]), expected)
        different += len(np.unique(got[0])) > ITEMS
    check(different > _UNIT // 2, "most kernels compute next to nothing")
