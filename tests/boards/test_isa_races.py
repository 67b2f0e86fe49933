"""Races in LDS that need both sides of a barrier to be seen: write after read, reads far back."""

from __future__ import annotations

import numpy as np
import pytest

from boards.amd.wave.types import Report
from tests.boards import isa_programs as programs
from tests.boards.wave_harness import Loaded, compile_object, launch
from tests.support import check

_NOP, _BARRIER = 0xBF800000, 0xBFBD0000
_N = 32


def _tiled(removed: set[int]) -> tuple[Report, float]:
    """The tiled product without some of its barriers: the report and the largest error."""
    loaded = Loaded(compile_object(programs.TILED))
    words = np.frombuffer(loaded.code, np.uint32).copy()
    places = np.flatnonzero(words == _BARRIER)
    check(len(places) >= 2, "the kernel has too few barriers")
    words[[places[i] for i in removed]] = _NOP
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
