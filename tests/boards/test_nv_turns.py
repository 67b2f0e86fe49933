"""Threads and blocks that wait for others make progress, as they do since Volta."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from boards.nv.launch import EndlessGrid
from boards.nv.warp.turns import TOGETHER, in_turns
from tests.boards.nv_warp_harness import compiled, run
from tests.nv_cubins import needs_nvrtc
from tests.support import check

F = 'extern "C" __global__ void f'
GRID_BARRIER = (
    F
    + """(unsigned *o, unsigned *arrived) { if (threadIdx.x == 0) {
  o[blockIdx.x] = blockIdx.x + 1; __threadfence(); atomicAdd(arrived, 1);
  while (*(volatile unsigned *)arrived < gridDim.x) {}
  o[gridDim.x + blockIdx.x] = ((volatile unsigned *)o)[(blockIdx.x + 1) % gridDim.x]; } }"""
)
LOCK = (
    F
    + """(unsigned *o, int *lock) { bool done = false; while (!done) {
  if (atomicCAS(lock, 0, 1) == 0) { volatile unsigned *p = o; p[0] = p[0] * 3 + 1; p[1] = p[1] + 1;
    __threadfence(); atomicExch(lock, 0); done = true; } } }"""
)
HANDED_DOWN = (
    F
    + """(unsigned *o, int unused) { volatile unsigned *p = o; unsigned me = threadIdx.x;
  unsigned turn = blockDim.x - 1 - me; while (true) { if (p[0] == turn) { p[1 + turn] = me;
      __threadfence(); p[0] = turn + 1; break; } } }"""
)


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_86", "sm_90a"])
def test_blocks_of_several_chunks_meet(monkeypatch: pytest.MonkeyPatch, arch: str) -> None:
    """32 blocks of 1,024 threads are eight chunks of the executor: each waits for all."""
    monkeypatch.setattr("boards.nv.warp.execute.SLICE_STEPS", 300)
    out, arrived = np.zeros(64, np.uint32), np.zeros(1, np.uint32)
    (got, _), found = run(compiled(GRID_BARRIER, arch), (out, arrived), (32, 1, 1), (1024, 1, 1))
    check(not found, str(found[:3]))
    np.testing.assert_array_equal(got[:32], np.arange(1, 33))
    np.testing.assert_array_equal(got[32:], np.roll(np.arange(1, 33), -1))


@needs_nvrtc
@pytest.mark.parametrize(("blocks", "threads"), [(1, 40), (5, 1), (3, 8)])
def test_a_lock_goes_from_lane_to_lane_and_block_to_block(blocks: int, threads: int) -> None:
    out, lock = np.zeros(2, np.uint32), np.zeros(1, np.int32)
    (got, after), found = run(compiled(LOCK), (out, lock), (blocks, 1, 1), (threads, 1, 1))
    check(not found, str(found[:3]))
    turns = blocks * threads
    np.testing.assert_array_equal(got, [(3**turns - 1) // 2 & 0xFFFFFFFF, turns])
    check(after[0] == 0)


@needs_nvrtc
def test_a_turn_is_handed_down_within_a_warp() -> None:
    """The last lane begins: all others spin until it is their turn."""
    out = np.zeros(9, np.uint32)
    (got,), found = run(compiled(HANDED_DOWN), (out, 0), (1, 1, 1), (8, 1, 1))
    check(not found, str(found[:3]))
    np.testing.assert_array_equal(got, [8, *range(7, -1, -1)])


@needs_nvrtc
def test_a_wait_for_nobody_is_an_endless_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boards.nv.warp.execute._MOST_STEPS", 3000)
    monkeypatch.setattr("boards.nv.warp.execute.SLICE_STEPS", 100)
    out, arrived = np.zeros(16, np.uint32), np.full(1, -100, np.int32).view(np.uint32)
    source = GRID_BARRIER.replace("< gridDim.x) {}", "!= 7) {}")
    with pytest.raises(EndlessGrid):
        run(compiled(source), (out, arrived), (8, 1, 1), (1024, 1, 1))


def test_so_many_chunks_run_together_and_each_once() -> None:
    begun, ended, most = [], [], 0

    def chunk(number: int, slices: int) -> Iterator[None]:
        nonlocal most
        begun.append(number)
        for _ in range(slices):
            most = max(most, len(begun) - len(ended))
            yield
        ended.append(number)

    in_turns(chunk(n, n % 5) for n in range(100))
    check(sorted(ended) == list(range(100)), str(ended))
    check(begun == list(range(100)), "each begins once, in order")
    check(1 < most <= TOGETHER, str(most))
