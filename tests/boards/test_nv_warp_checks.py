"""Races, barriers, registers: what code may not do is reported. Bank conflicts are counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from boards.nv.launch import EndlessGrid, SmException
from tests.boards.nv_warp_harness import compiled, run
from tests.boards.nv_warp_kernels import CASES
from tests.nv_cubins import needs_nvrtc
from tests.support import check

pytestmark = needs_nvrtc
HEAD = 'extern "C" __global__ void f(int *o, const int *a) { int i = threadIdx.x;'
RACES = {
    "written, then read by another warp": (
        "__shared__ int s[64]; s[i] = a[i]; o[i] = s[63 - i];",
        "shared memory is read while another warp writes it",
    ),
    "read, then written by another warp": (
        "__shared__ int s[64]; s[i] = a[i]; __syncthreads(); int x = s[63 - i];"
        ' asm volatile("" ::: "memory"); s[i] = x + 1; __syncthreads(); o[i] = s[i];',
        "shared memory is written while another warp uses it",
    ),
    "one byte written by two warps": (
        "__shared__ signed char s[64]; s[i & 31] = i; __syncthreads(); o[i] = s[i & 31];",
        "lanes store different values to one shared address",
    ),
}
WITHOUT = {
    "a barrier between": "__shared__ int s[64]; s[i] = a[i]; __syncthreads(); o[i] = s[63 - i];",
    "one warp alone": "__shared__ int s[64]; s[i] = a[i]; __syncwarp(); o[i] = s[i ^ 31];",
    "neighbours in one word": (
        "__shared__ signed char s[64]; s[(i & 1) * 32 + (i >> 1)] = i; __syncthreads();"
        " o[i] = s[i];"
    ),
    "all write the same": "__shared__ int s; s = a[0]; __syncthreads(); o[i] = s;",
}


def _run(body: str, **options: Any) -> tuple[list[Any], list[tuple[str, str]]]:
    args = (np.zeros(64, "i4"), np.arange(64, dtype="i4"))
    return run(compiled(HEAD + body + "}"), args, (1, 1, 1), (64, 1, 1), **options)


@pytest.mark.parametrize("name", RACES)
def test_a_race_is_reported(name: str) -> None:
    body, kind = RACES[name]
    found = {each for each, _ in _run(body)[1]}
    check(kind in found, str(found))


@pytest.mark.parametrize("name", WITHOUT)
def test_what_is_no_race_is_not_reported(name: str) -> None:
    check(not _run(WITHOUT[name])[1], str(_run(WITHOUT[name])[1]))


def test_a_barrier_that_a_warp_does_not_reach_is_a_hang() -> None:
    found: list[tuple[str, str]] = []
    body = 'if (i < 32) asm volatile("bar.sync 1, 64;"); else __syncthreads(); o[i] = 1;'
    with pytest.raises(EndlessGrid):
        _run(body, found=found)
    kinds = dict(found)
    check("threads that wait for each other" in kinds, str(found))
    check("1 of 2 warps" in kinds["threads that wait for each other"], str(found))


def test_a_register_beyond_the_launch_is_reported() -> None:
    code, record, banks = compiled(HEAD + "o[i] = a[i] + 1; }")
    args = (np.zeros(64, "i4"), np.ones(64, "i4"))
    _, found = run((code, replace(record, registers=2), banks), args, (1, 1, 1), (64, 1, 1))
    check({kind for kind, _ in found} == {"register beyond those of the launch"}, str(found))


def test_a_register_that_the_warp_has_not_got_stops_the_code() -> None:
    case = next(case for case in CASES if case.name == "words")
    code, record, banks = compiled(case.source)
    few = code, replace(record, registers=8), banks
    with pytest.raises(SmException, match=r"R[0-9]+ in .* of 8 registers"):
        run(few, case.args, case.grid, case.block)


CONFLICTS = [(1, 0), (2, 2), (4, 6), (8, 14), (32, 62), (33, 0)]
"""A stride in words, and extra turns of two warps. # src: CUDA C++ Programming Guide: 32 banks"""


@pytest.mark.parametrize(("stride", "turns"), CONFLICTS)
def test_bank_conflicts_are_counted(stride: int, turns: int) -> None:
    conflicts: dict[int, int] = {}
    body = (
        f"__shared__ int s[{64 * 33}]; volatile int *v = s; for (int k = i; k < {64 * 33}; k += 64)"
        f" v[k] = k; __syncthreads(); o[i] = v[(i & 31) * {stride}]; }} //"
    )
    buffers, found = _run(body, conflicts=conflicts)
    check(not found, str(found[:3]))
    np.testing.assert_array_equal(buffers[0], (np.arange(64) & 31) * stride)
    check(sum(conflicts.values()) == turns, str(conflicts))


def test_the_order_of_atomics_can_be_drawn() -> None:
    body = "o[i] = atomicAdd(o + 32 + (i & 1), 1); }//"
    first, second = (_run(body, order=seed)[0][0] for seed in (1, 2))
    check(not np.array_equal(first[:32], second[:32]), "two orders")
    alone = "o[i] = 0; __syncthreads(); atomicAdd(o + 5, a[i]); }//"
    one, two = (_run(alone, order=seed)[0][0] for seed in (1, 2))
    np.testing.assert_array_equal(one, two)
    check(one[5] == sum(range(64)), str(one[5]))


def test_a_trap_stops_the_code() -> None:
    with pytest.raises(SmException, match=r"BPT\.TRAP"):
        _run("if (a[i] == 7) __trap(); o[i] = 1;")
