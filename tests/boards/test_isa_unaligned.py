"""Accesses at any byte: memory and LDS are in UNALIGNED mode; atomics lie on their own size."""

from __future__ import annotations

import numpy as np
import pytest

from boards.amd.wave.types import Strict, WaveFault
from tests.boards.wave_harness import ARGS, CHIPS, kernel, launch
from tests.support import check

# Lane i keeps 8 bytes at 1 + 9 * i and a 77, and gives back 8 from 3 + 9 * i on.
_ODD_LDS = kernel(
    """  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i64, ptr addrspace(1) %a, i32 %t
  %v = load i64, ptr addrspace(1) %p
  %n = mul i32 %t, 9
  %q = getelementptr i8, ptr addrspace(3) @kept, i32 %n
  %w = getelementptr i8, ptr addrspace(3) %q, i32 1
  store i64 %v, ptr addrspace(3) %w, align 1
  %e = getelementptr i8, ptr addrspace(3) %q, i32 9
  store i8 77, ptr addrspace(3) %e
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %r = getelementptr i8, ptr addrspace(3) %q, i32 3
  %x = load i64, ptr addrspace(3) %r, align 1
  store i64 %x, ptr addrspace(1) %p
  ret void""",
    f"{ARGS} %a",
    top="""@kept = internal addrspace(3) global [600 x i8] undef, align 16
declare void @llvm.amdgcn.s.barrier()
declare i32 @llvm.amdgcn.workitem.id.x()
""",
)


@pytest.mark.parametrize("cpu", CHIPS)
def test_lds_is_reached_at_any_byte(cpu: str) -> None:
    # src: LLVM AMDGPU.td, FeatureUnalignedDSAccess of gfx9 and later, in memory's UNALIGNED mode
    values = np.random.default_rng(5).integers(0, 1 << 63, 64, np.uint64)
    kept = np.zeros(9 * 64 + 16, np.uint8)
    for lane, value in enumerate(values):
        kept[1 + 9 * lane : 9 + 9 * lane] = np.frombuffer(value.tobytes(), np.uint8)
        kept[9 + 9 * lane] = 77
    expected = [int.from_bytes(kept[3 + 9 * i : 11 + 9 * i].tobytes(), "little") for i in range(63)]
    report = launch(_ODD_LDS, [values], workgroup=(64, 1, 1), cpu=cpu, strict=Strict())
    np.testing.assert_array_equal(values[:63], np.array(expected, np.uint64))
    found = [f for f in report.violations if f.kind != "unwritten LDS"]  # the last lane's last
    check(not found, str(found))


_ODD_ATOMIC = kernel(
    """  %p = getelementptr i8, ptr addrspace(1) %a, i64 4
  %old = atomicrmw add ptr addrspace(1) %p, i64 1 monotonic
  ret void""",
    f"{ARGS} %a",
)


@pytest.mark.parametrize("cpu", CHIPS)
def test_64_bit_atomics_in_memory_are_aligned_to_their_size(cpu: str) -> None:
    with pytest.raises(WaveFault, match="misaligned"):
        launch(_ODD_ATOMIC, [np.zeros(4, np.uint64)], cpu=cpu)
