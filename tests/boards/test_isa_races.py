"""Races in LDS: write after read, reads far back, what a barrier orders, the same bytes twice."""

from __future__ import annotations

import numpy as np
import pytest

from boards.amd.wave.types import Report
from tests.boards import isa_programs as programs
from tests.boards.test_isa_silicon import (
    BARRIER,
    FIRST_WAVE,
    LDS_DONE,
    LOAD,
    NOP,
    OWN_DWORD,
    SECOND_WAVE,
    STORE,
    violations,
)
from tests.boards.wave_harness import Loaded, compile_object, launch
from tests.support import check

_N = 32


def _tiled(removed: set[int]) -> tuple[Report, float]:
    """The tiled product without some of its barriers: the report and the largest error."""
    loaded = Loaded(compile_object(programs.TILED))
    words = np.frombuffer(loaded.code, np.uint32).copy()
    places = np.flatnonzero(words == BARRIER)
    check(len(places) >= 2, "the kernel has too few barriers")
    words[[places[i] for i in removed]] = NOP
    loaded.image[loaded.entry : loaded.entry + len(loaded.code)] = words.tobytes()
    a, b = np.random.default_rng(1).standard_normal((2, _N, _N)).astype(np.float32)
    c = np.zeros((_N, _N), np.float32)
    report = launch("", [a, b, c, _N], (_N // 16, _N // 16, 1), (256, 1, 1), loaded=loaded)
    return report, float(np.abs(c - a.astype(np.float64) @ b).max())


def test_all_barriers_and_no_race() -> None:
    report, error = _tiled(set())
    check(not report.violations, "\n".join(map(str, report.violations)))
    check(error < 1e-4, f"error {error}")


@pytest.mark.parametrize("barrier", [0, 1], ids=["read after write", "write after read"])
def test_one_missing_barrier_is_a_race(barrier: int) -> None:
    report, _ = _tiled({barrier})
    check(any(f.kind == "LDS race" for f in report.violations), str(report.violations))


# s_mov_b64 s[4:5], src_shared_base; v10 = v1; v11 = s5; flat_store_b32 v[10:11], v2; flat_load_b32
_AS_FLAT = [0xBE8401EB, 0x7E140301, 0x7E160205]
_FLAT_STORE, _FLAT_READ = [0xDC680000, 0x007C020A], [0xDC500000, 0x037C000A]
_ALL_DONE = 0xBF890007  # s_waitcnt vmcnt(0) lgkmcnt(0)
_TWO = 0x7E040282  # v_mov_b32 v2, 2: another value than the first store's


@pytest.mark.parametrize("wait", [LDS_DONE, NOP])
@pytest.mark.parametrize("first", [STORE, LOAD], ids=["store", "load"])
def test_a_barrier_orders_lds_instructions_without_a_wait(wait: int, first: list[int]) -> None:
    """src: LLVM SIMemoryLegalizer.cpp: all waves see their LDS instructions in one order."""
    second = LOAD if first is STORE else STORE
    words = [*OWN_DWORD, *FIRST_WAVE, *STORE, LDS_DONE, BARRIER, _TWO]
    words += [*FIRST_WAVE, *first, wait, BARRIER, *SECOND_WAVE, *second, LDS_DONE]
    check(not violations(words), str(violations(words)))


@pytest.mark.parametrize(("wait", "found"), [(_ALL_DONE, set()), (NOP, {"LDS race LDS"})])
@pytest.mark.parametrize("first", [_FLAT_STORE, _FLAT_READ], ids=["store", "load"])
def test_a_barrier_waits_for_no_flat_access(
    wait: int, found: set[str], first: list[int]
) -> None:  # fmt: skip
    second = LOAD if first is _FLAT_STORE else STORE
    words = [*OWN_DWORD, *_AS_FLAT, *FIRST_WAVE, *STORE, LDS_DONE, BARRIER, _TWO]
    words += [*FIRST_WAVE, *first, wait, BARRIER, *SECOND_WAVE, *second, LDS_DONE]
    check(violations(words) == found, str(violations(words)))


# v_lshrrev_b32 v2, 5, v0: 0 in the first wave, 1 in the second
_NUMBER = 0x32040085


def test_waves_that_write_one_dword_at_the_same_time_race() -> None:
    check(violations([*OWN_DWORD, _NUMBER, *STORE]) == {"LDS race LDS"}, "not found")
    found = violations([*OWN_DWORD, _NUMBER, *STORE], workgroup=(32, 1, 1))
    check(not found, "one wave cannot race")


# the second wave stores a 1 of its own behind the first wave's, or a 2
_AGAIN = [*FIRST_WAVE, *STORE, *SECOND_WAVE, *STORE]
_OTHER = [*FIRST_WAVE, *STORE, _TWO, *SECOND_WAVE, *STORE]
_OWN_READ = [LDS_DONE, *LOAD]
_SAME_HALF = [0xD87C0000, 0x00000201]  # ds_store_b16 v1, v2


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (STORE, set()),
        ([*STORE, *_OWN_READ], set()),
        (_AGAIN, set()),
        ([*_AGAIN, *_OWN_READ], set()),
        (_OTHER, {"LDS race LDS"}),
        ([*STORE, _TWO, *FIRST_WAVE, *STORE], {"LDS race LDS"}),
        ([*STORE, _TWO, *SECOND_WAVE, *STORE], {"LDS race LDS"}),
        ([*STORE, LDS_DONE, BARRIER, _TWO, *FIRST_WAVE, *STORE], set()),
        ([*FIRST_WAVE, *STORE, *SECOND_WAVE, *LOAD], {"LDS race LDS"}),
        (_SAME_HALF, set()),
        ([_NUMBER, *_SAME_HALF], {"LDS race LDS"}),
    ],
    ids=["at once", "at once, read", "one by one", "one by one, read", "another value",
         "then another value", "then another value of the last", "after a barrier", "not its own",
         "halves", "other halves"],
)  # fmt: skip
def test_the_same_bytes_stored_twice_are_no_race(words: list[int], found: set[str]) -> None:
    """Every order of such stores gives the same: redundant waves of Triton's kernels do so."""
    check(violations([*OWN_DWORD, *words]) == found, str(violations([*OWN_DWORD, *words])))
