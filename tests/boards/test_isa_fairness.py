"""Waves that wait for others in a loop: locks, grid barriers and chains, with barriers inside."""

from __future__ import annotations

import numpy as np
import pytest

from tests.boards.isa_kernels import IDS
from tests.boards.wave_harness import kernel, launch
from tests.support import check

_MOST_STEPS = 100_000
"""Several times what these kernels need; without a fair scheduler they never end."""
_G = "ptr addrspace(1) noalias"
_TOP = (
    IDS
    + "declare void @llvm.amdgcn.s.barrier()\n"
    + "@box = internal addrspace(3) global [1 x i32] undef, align 16\n"
)
_MEET = """  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
"""
# The first lane looks at memory, and all lanes of the workgroup learn through LDS what it saw.
_SHARED = f"""
shared:
{_MEET}  %seen = load volatile i32, ptr addrspace(3) @box, align 16
{_MEET}"""
_HEAD = """entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %first = icmp eq i32 %t, 0
"""
_LOCKED = kernel(
    _HEAD
    + """  br label %spin
spin:
  br i1 %first, label %try, label %shared
try:
  %pair = cmpxchg ptr addrspace(1) %a, i32 0, i32 1 syncscope("agent") acquire monotonic
  %old = extractvalue { i32, i1 } %pair, 0
  store i32 %old, ptr addrspace(3) @box, align 16
  br label %shared"""
    + _SHARED
    + """  %busy = icmp ne i32 %seen, 0
  br i1 %busy, label %spin, label %inside
inside:
  br i1 %first, label %add, label %out
add:
  %n = load volatile i32, ptr addrspace(1) %c
  %n1 = add i32 %n, %g
  store volatile i32 %n1, ptr addrspace(1) %c
  store atomic i32 0, ptr addrspace(1) %a syncscope("agent") release, align 4
  br label %out
out:
  ret void""",
    f"{_G} %a, {_G} %c",
    top=_TOP,
)
"""A lock that the first lane takes: what is inside adds its workgroup's number to c[0]."""


def _waiting(before: str, wanted: str, after: str) -> str:
    """A kernel whose workgroups wait until c[%place] is what they want."""
    body = f"""{_HEAD}{before}
spin:
  br i1 %first, label %try, label %shared
try:
  %p = getelementptr i32, ptr addrspace(1) %c, i32 %place
  %v = load atomic i32, ptr addrspace(1) %p syncscope("agent") acquire, align 4
  store i32 %v, ptr addrspace(3) @box, align 16
  br label %shared{_SHARED}  %ready = {wanted}
  br i1 %ready, label %go, label %spin
go:
  br i1 %first, label %put, label %out
put:
{after}  br label %out
out:
  ret void"""
    return kernel(body, f"{_G} %a, {_G} %c, i32 %n", top=_TOP)


_GRID = _waiting(
    """  br i1 %first, label %count, label %begin
count:
  %one = atomicrmw add ptr addrspace(1) %c, i32 1 syncscope("agent") acq_rel
  br label %begin
begin:
  %place = add i32 0, 0
  br label %spin""",
    "icmp eq i32 %seen, %n",
    """  %ap = getelementptr i32, ptr addrspace(1) %a, i32 %g
  store i32 %seen, ptr addrspace(1) %ap
""",
)
"""A barrier of the whole grid: everyone waits until all have counted themselves."""
_CHAIN = _waiting(
    """  %place = sub i32 %n, %g
  %mine = sub i32 %place, 1
  br label %spin""",
    "icmp ne i32 %seen, 0",
    """  %next = add i32 %seen, %g
  %cp = getelementptr i32, ptr addrspace(1) %c, i32 %mine
  store atomic i32 %next, ptr addrspace(1) %cp syncscope("agent") release, align 4
""",
)
"""A chain of prefixes, as in a scan that looks back: each workgroup waits for the one before."""
_CHIPS = ("gfx1100", "gfx1201", "gfx942")


@pytest.mark.parametrize("cpu", _CHIPS)
def test_a_lock_goes_from_one_workgroup_to_the_next(cpu: str) -> None:
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    launch(_LOCKED, [lock, total], (4, 1, 1), (128, 1, 1), cpu=cpu, max_steps=_MOST_STEPS)
    check((int(lock[0]), int(total[0])) == (0, sum(range(4))), f"{lock} {total}")


@pytest.mark.parametrize("cpu", _CHIPS)
def test_a_grid_meets(cpu: str) -> None:
    seen, count = np.zeros(6, np.int32), np.zeros(1, np.int32)
    launch(_GRID, [seen, count, 6], (6, 1, 1), (128, 1, 1), cpu=cpu, max_steps=_MOST_STEPS)
    np.testing.assert_array_equal(seen, 6)


@pytest.mark.parametrize("cpu", _CHIPS)
def test_prefixes_pass_along_a_chain(cpu: str) -> None:
    prefixes = np.zeros(5, np.int32)
    prefixes[4] = 1
    arguments = [np.zeros(1, np.int32), prefixes, 4]
    launch(_CHAIN, arguments, (4, 1, 1), (128, 1, 1), cpu=cpu, max_steps=_MOST_STEPS)
    np.testing.assert_array_equal(prefixes[::-1], 1 + np.cumsum([0, 0, 1, 2, 3]))
