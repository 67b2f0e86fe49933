"""The kernel that smoke tests and host-cost figures run: c[i] = a[i] + b[i] for i < n.

A driver is given its code as Firmware; this one is for command lines that open NVIDIA GPUs.
"""

from __future__ import annotations

from compilers.toolchains import compile_source
from drivers.base.contracts import Binary
from drivers.base.errors import NotFound

KIND = "smoke"
BLOCK = 64
"""Lanes of a workgroup."""
_SOURCE = f"""
extern "C" __global__ void __launch_bounds__({BLOCK})
smoke_add(const unsigned *a, const unsigned *b, unsigned *c, long long n) {{
  long long i = (long long)blockIdx.x * {BLOCK} + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}}
"""


def firmware(kind: str, arch: str) -> Binary:
    """Firmware for the driver's smoke test. Raises: NotFound, CompileError, Unsupported."""
    if kind != KIND:
        raise NotFound(f"there is no {kind!r} for {arch}", hint=f"Ask for {KIND!r}")
    made = compile_source(_SOURCE, "smoke_add", "NVRTC", arch, frozenset())
    return made.in_blocks_of(BLOCK)
