"""The random C of c_kernel_maker as CUDA C: the same text, other macros."""

from __future__ import annotations

from tests.boards.c_kernel_maker import unit

_CUDA = """#define MEM
#define ENTRY extern "C" __global__ void
#define BEGIN int id = blockIdx.x * 32 + threadIdx.x; {
#define END }
#define static static __device__
typedef signed char i8; typedef long long i64; typedef unsigned long long u64;
"""


def cuda_unit(seeds: range) -> str:
    """A source for nvrtc with a kernel k<seed> for each seed."""
    _, rest = unit(seeds).split("#endif\n", 1)
    for name in ("fabs", "sqrt", "floor", "ceil", "trunc"):
        rest = rest.replace(f"__builtin_{name}", name)
    return _CUDA + rest
