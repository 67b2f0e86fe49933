"""Cubins that tests read: `python -m tests.nv_cubins` compiles them again (extra `nv`).

Committed, so that the loader is tested where NVIDIA's compilers are not. By nvrtc 13.5 from SOURCE.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from compilers.nv import libraries, nvjitlink, nvrtc
from compilers.nv.disasm import PROGRAM
from drivers.base.errors import NotFound
from unbound import terminal

DATA: Final = Path(__file__).parent / "data"
ARCHES: Final = ("sm_75", "sm_86", "sm_90a", "sm_120")
SOURCE: Final = """
__constant__ float table[40] = {1, 2, 3};
__device__ int counter;
__device__ int numbers[4] = {5, 6, 7, 8};
extern "C" __global__ void __launch_bounds__(128) k(float *p0, const float *p1, int n) {
  __shared__ float shared[128];
  float kept[100];
  int t = threadIdx.x;
  _Pragma("unroll 1") for (int i = 0; i < 100; i++) kept[i] = p1[i * t];
  shared[t] = p1[t] + numbers[n & 3];
  __syncthreads();
  p0[t] = shared[(t + 1) % 128] + table[n] + kept[n] + atomicAdd(&counter, 1);
}
extern "C" __global__ void second(unsigned short first, double *p, unsigned char last) {
  p[blockIdx.x] = first + last;
}
"""


def path_of(arch: str) -> Path:
    """Where the cubin of an architecture is."""
    return DATA / f"nv_{arch}.cubin"


def cubin(arch: str) -> bytes:
    """The committed cubin of SOURCE."""
    return path_of(arch).read_bytes()


def _lacks(*names: tuple[str, ...]) -> bool:
    try:
        for each in names:
            libraries.find(each)
    except NotFound:
        return True
    return False


def _no_program() -> bool:
    try:
        libraries.find_program(PROGRAM)
    except NotFound:
        return True
    return False


needs_nvrtc = pytest.mark.skipif(_lacks(nvrtc.NAMES), reason="no nvrtc: make nv")
needs_nvjitlink = pytest.mark.skipif(_lacks(nvjitlink.NAMES), reason="no nvJitLink: make nv")
needs_nvdisasm = pytest.mark.skipif(_no_program(), reason="no nvdisasm: make nv")


def main() -> int:
    """Compile all."""
    for arch in ARCHES:
        path_of(arch).write_bytes(nvrtc.compile_object(SOURCE, arch, frozenset()))
    return 0


if __name__ == "__main__":
    terminal.run(lambda _: main())
