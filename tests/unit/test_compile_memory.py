"""Compiling takes no memory that stays: each compiler, by what a process has in memory after many
kernels that differ."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from compilers.amd import comgr
from compilers.amd import llvm as amd_llvm
from compilers.cpu import llvm as cpu_llvm
from compilers.nv import nvrtc, ptx
from tests import amd_kernels
from tests.amd_toolbox import needs_comgr
from tests.nv_cubins import needs_nvjitlink, needs_nvrtc
from tests.share import part
from tests.support import check

NONE: Final[frozenset[str]] = frozenset()
FIRST: Final = 8
"""Kernels until what a compiler keeps for all is there."""
WINDOWS: Final = 4
STAYS_BYTES: Final = 24 << 10
"""Of a kernel. A pass manager of llvmlite that nothing frees is some 70 KiB."""
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

LOOP: Final = """define void @k(ptr noalias %a, ptr noalias %b, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %p = getelementptr float, ptr %a, i64 %i
  %q = getelementptr float, ptr %b, i64 %i
  %v = load float, ptr %p
  %w = fmul float %v, {}.0
  store float %w, ptr %q
  %next = add i64 %i, 1
  %go = icmp ult i64 %next, %n
  br i1 %go, label %loop, label %done
done:
  ret void
}}"""
CUDA: Final = (
    'extern "C" __global__ void k(float *a) {{ a[threadIdx.x] = a[threadIdx.x] * {}.0f; }}'
)
PTX: Final = """define ptx_kernel void @k(ptr addrspace(1) %a) {{
  %v = load float, ptr addrspace(1) %a
  %w = fmul float %v, {}.0
  store float %w, ptr addrspace(1) %a
  ret void
}}"""
HIP: Final = """extern "C" __global__ void k(float *a) {{
  unsigned lane = __builtin_amdgcn_workitem_id_x();
  a[lane] = a[lane] * {}.0f;
}}"""


def amd(number: int) -> str:
    """A kernel that has this number in it."""
    return amd_kernels.add().replace("fadd float %x, %y", f"fadd float %x, {number}.0")


COMPILERS: Final[list[tuple[str, Callable[[int], object], tuple[pytest.MarkDecorator, ...]]]] = [
    ("processor", lambda n: cpu_llvm.compile_object(LOOP.format(n), "x86_64", NONE), ()),
    ("AMD", lambda n: amd_llvm.compile_object(amd(n), "gfx1100", NONE), ()),
    ("COMGR", lambda n: comgr.compile_object(HIP.format(n), "gfx1030", NONE), (needs_comgr,)),
    ("PTX", lambda n: ptx.compile_object(PTX.format(n), "sm_86", NONE), (needs_nvjitlink,)),
    ("nvrtc", lambda n: nvrtc.compile_object(CUDA.format(n), "sm_86", NONE), (needs_nvrtc,)),
]


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


@pytest.mark.resident_memory
@pytest.mark.parametrize(
    "compiled", [pytest.param(one, id=name, marks=marks) for name, one, marks in COMPILERS]
)
def test_a_kernel_leaves_no_memory_behind(compiled: Callable[[int], object]) -> None:
    """One window of kernels is enough: what leaks grows in each, an allocator's pools in some."""
    count = part(16, 12)
    for number in range(1, FIRST):
        compiled(number)
    grown: list[int] = []
    for window in range(WINDOWS):
        before = resident_bytes()
        for number in range(count):
            compiled(FIRST + window * count + number)
        grown.append((resident_bytes() - before) // count)
        if grown[-1] <= STAYS_BYTES:
            return
    check(False, f"each kernel leaves {grown} bytes behind")
