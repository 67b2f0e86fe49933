"""Races in shared memory, against a record of each byte; and accesses past a block's memory."""

from __future__ import annotations

import random

import numpy as np
import pytest

from boards.nv.launch import SmException
from boards.nv.warp.memory import OUT_OF_RANGE
from boards.nv.warp.touched import Touched
from tests.boards.nv_warp_harness import compiled, run
from tests.nv_cubins import needs_nvrtc
from tests.share import part
from tests.support import check

BYTES, LARGEST, WARPS, STEPS = 256, 16, 3, 12
SIZES = (1, 2, 4, 8, 16)
WHOLE, SAMPLE = 2000, 300


class EachByte:
    """Which warps read, wrote and changed each byte since the barrier: sets, and nothing else."""

    def __init__(self) -> None:
        self.readers, self.writers, self.changers = (
            [set[int]() for _ in range(BYTES)] for _ in range(3)
        )

    def read(self, at: range, who: int) -> bool:
        found = any(self.writers[byte] - {who} for byte in at)
        for byte in at:
            self.readers[byte].add(who)
        return found

    def write(self, at: range, who: int) -> bool:
        tables = (self.readers, self.writers, self.changers)
        found = any(table[byte] - {who} for byte in at for table in tables)
        for byte in at:
            self.writers[byte].add(who)
        return found

    def change(self, at: range, who: int) -> bool:
        found = any(self.writers[byte] - {who} for byte in at)
        for byte in at:
            self.changers[byte].add(who)
        return found


def _asked(touched: Touched, operation: str, at: int, nbytes: int, who: int) -> bool:
    row, column, by = np.array([0]), np.array([at]), np.array([who], np.int16)
    if operation == "read":
        return touched.read(row, column, nbytes, by)
    if operation == "write":
        return touched.write(row, column, nbytes, by, np.array([True]))
    return touched.change(row, column, nbytes, by)


def test_every_race_is_seen_at_any_order_of_sizes() -> None:
    """Sizes that shrink later make the tables finer: earlier marks are not lost."""
    rng = random.Random(25)
    for _ in range(part(WHOLE, SAMPLE)):
        touched, bytes_of = Touched(1, BYTES), EachByte()
        history = []
        least = LARGEST
        for _ in range(STEPS):
            operation = rng.choice(("read", "write", "change"))
            nbytes, who = rng.choice(SIZES), rng.randint(1, WARPS)
            least = min(least, nbytes)
            at = rng.randrange(0, 64 // nbytes) * nbytes
            history.append((operation, at, nbytes, who))
            wanted = getattr(bytes_of, operation)(range(at, at + nbytes), who)
            got = _asked(touched, operation, at, nbytes, who)
            check(got == wanted, f"{got}, bytes say {wanted}: {history}")


def test_the_last_bytes_are_read_in_two_sizes() -> None:
    """A table that is made finer while it is marked: no index is beyond it."""
    touched = Touched(1, BYTES)
    check(not _asked(touched, "read", BYTES - 16, 16, 1))
    check(not _asked(touched, "read", BYTES - 4, 4, 1))
    check(_asked(touched, "write", BYTES - 4, 4, 2), "a race that is not seen")


COPIES = """
extern "C" __global__ void f(float *o, const float *a, int n) {
  __shared__ float s[2][512];
  int i = threadIdx.x;
  unsigned to = (unsigned)__cvta_generic_to_shared(&s[0][i]);
  for (int k = 0; k < 2; k++) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                 :: "r"(to + 2048 * k), "l"(a + 512 * k + i) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  o[i] = s[0][511 - i] + s[1][(i + 64) % 512] + (i < n ? s[1][i] : 0);
}
"""
BEYOND = """
extern "C" __global__ void f(int *o, int k) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  %s
}
"""
ACCESSES = {
    "load": "o[threadIdx.x] = s[threadIdx.x + k];",
    "store": "s[threadIdx.x + k] = 1; __syncthreads(); o[threadIdx.x] = s[threadIdx.x];",
    "atomic": "atomicAdd(&s[threadIdx.x + k], 1); __syncthreads(); o[threadIdx.x] = s[0];",
}


@needs_nvrtc
def test_copies_into_two_buffers() -> None:
    a = np.arange(1024, dtype=np.float32)
    (out, _), found = run(compiled(COPIES), (np.zeros(512, np.float32), a, 100), (1, 1, 1),
                          (512, 1, 1))  # fmt: skip
    i = np.arange(512)
    wanted = a[511 - i] + a[512 + (i + 64) % 512] + np.where(i < 100, a[512 + i], 0)
    np.testing.assert_array_equal(out, wanted)
    check(not found, str(found[:3]))


@needs_nvrtc
@pytest.mark.parametrize("kind", ACCESSES)
@pytest.mark.parametrize("arch", ["sm_75", "sm_86", "sm_90a", "sm_120"])
def test_an_access_past_the_blocks_shared_memory_stops_the_sm(arch: str, kind: str) -> None:
    """As silicon: a warp exception for an address out of range, not a number of a neighbour."""
    code = compiled(BEYOND % ACCESSES[kind], arch)
    with pytest.raises(SmException, match="beyond shared memory") as caught:
        run(code, (np.zeros(64, np.int32), 1 << 14), (2, 1, 1), (64, 1, 1))
    check(caught.value.warp_esr == OUT_OF_RANGE)
