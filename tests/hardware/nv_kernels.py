"""CUDA kernels that go wrong, each in its own way; compiled for whatever GPU there is."""

from __future__ import annotations

from dataclasses import replace

from compilers.toolchains import compile_source
from drivers.base.contracts import Binary

_HEAD = 'extern "C" __global__ void __launch_bounds__(64)\nk(unsigned *a, unsigned *b, '
SOURCES = {
    "add": "unsigned *c, long long n) { long long i = blockIdx.x * 64LL + threadIdx.x;\n"
           "  if (i < n) c[i] = a[i] + b[i]; }",
    "write": "unsigned *c, long long n) { c[threadIdx.x] = 1; }",
    "read": "unsigned *c, long long n) { a[threadIdx.x] = c[threadIdx.x]; }",
    "atomic": "unsigned *c, long long n) { atomicAdd(c + threadIdx.x, 1u); }",
    "misaligned": "unsigned *c, long long n)\n"
                  "{ *(volatile unsigned *)((char *)a + 1 + n) = 1; }",
    "trap": 'unsigned *c, long long n) { asm volatile("trap;"); }',
    "endless": "unsigned *c, long long n)\n"
               "{ while (((volatile unsigned *)a)[0] != 12345u) {} }",
}  # fmt: skip
"""Bodies behind two pointers: c[i] = a[i] + b[i], and what a GPU refuses."""


def kernel(name: str, arch: str) -> Binary:
    """One of them. Raises: NotFound without nvrtc, CompileError."""
    made = compile_source(_HEAD + SOURCES[name], "k", "NVRTC", arch, frozenset())
    return made.in_blocks_of(64)


def illegal(arch: str) -> Binary:
    """The addition, its first instruction no instruction any more."""
    made = kernel("add", arch)
    blob = bytearray(made.image)
    blob[made.entry : made.entry + 16] = b"\xff" * 16
    return replace(made, image=bytes(blob))
