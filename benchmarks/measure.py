"""Paired, interleaved timing, and the result of one row.

A row is measured as pairs: ours, then the reference, then the other way round, so that a slow
second of the machine hits both. `value` and `reference_value` are medians, `ratio` is the median of
the pairs' own ratios; above 1 we are better, whatever the unit.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Timer: TypeAlias = Callable[[], float]
"""Runs something once and returns the seconds it took."""

Value: TypeAlias = "str | float | None"

SCALE = {"GFLOP/s": 1e-9, "GB/s": 1e-9, "us": 1e6, "s": 1.0}
"""From operations (or bytes) a second, and from seconds, into the unit."""
RATES = frozenset({"GFLOP/s", "GB/s"})
LEAST_PAIRS = 3
MOST_PAIRS = 101


class WrongResult(Exception):
    """A row computed something else than its reference: it is not timed."""


class Skipped(Exception):
    """What a row is compared with is not there."""


@dataclass(frozen=True)
class Case:
    """One row, ready to be timed.

    `work` is what one operation does: FLOPs for GFLOP/s, bytes for GB/s, unused for times.
    `flops` and `nbytes` (compulsory traffic) place the row on the roofline.
    """

    unit: str
    reference: str
    ours: Timer
    theirs: Timer
    work: float = 1.0
    torch: Timer | None = None
    flops: float = 0.0
    nbytes: float = 0.0
    least_pairs: int = LEAST_PAIRS


@dataclass(frozen=True)
class Result:
    """A measured row, or the reason why there is none (`error`)."""

    name: str
    unit: str = ""
    reference: str = ""
    value: float | None = None
    reference_value: float | None = None
    ratio: float | None = None
    torch_value: float | None = None
    torch_ratio: float | None = None
    error: str = ""
    skipped: str = ""
    """Why it was not measured."""
    point: tuple[float, float] | None = field(default=None, compare=False)
    """(FLOPs a byte, FLOPs a second), for the roofline."""

    def row(self) -> dict[str, Value]:
        """The row as the JSON file holds it; torch and error only where there is one."""
        row: dict[str, Value] = {
            "name": self.name, "value": self.value, "unit": self.unit,
            "reference": self.reference, "reference_value": self.reference_value,
            "ratio": self.ratio,
        }  # fmt: skip
        if self.torch_value is not None:
            row |= {"torch_value": self.torch_value, "torch_ratio": self.torch_ratio}
        if self.error:
            row["error"] = self.error
        if self.skipped:
            row["skipped"] = self.skipped
        return row


def timer(operation: Callable[[], object], calls: int = 1) -> Timer:
    """Seconds of one call, as the mean over `calls` calls in a row."""

    def run() -> float:
        repeats = range(calls)
        start_s = time.perf_counter()
        for _ in repeats:
            operation()
        return (time.perf_counter() - start_s) / calls

    return run


def in_unit(seconds: float, unit: str, work: float) -> float:
    """Seconds for `work` as a rate, or as a time, in `unit`."""
    return (work / seconds if unit in RATES else seconds) * SCALE[unit]


def measure(name: str, case: Case, budget_s: float) -> Result:
    """Time the pairs of `case` for about `budget_s`, with at least `case.least_pairs` of them."""
    timers = [case.ours, case.theirs] + ([case.torch] if case.torch else [])
    for run in timers:
        run()
    samples: list[list[float]] = []
    deadline_s = time.perf_counter() + budget_s
    for pair in range(MOST_PAIRS):
        if pair >= case.least_pairs and time.perf_counter() > deadline_s:
            break
        order = range(len(timers)) if pair % 2 == 0 else reversed(range(len(timers)))
        taken = {which: timers[which]() for which in order}
        samples.append([taken[which] for which in range(len(timers))])
    return summarise(name, case, samples)


def summarise(name: str, case: Case, samples: list[list[float]]) -> Result:
    """Medians of `samples`: seconds of ours, of the reference and, if there, of torch."""
    columns = list(zip(*samples, strict=True))
    ours_s = statistics.median(columns[0])

    def ratio(which: int) -> float:
        pairs = zip(columns[0], columns[which], strict=True)
        return float(statistics.median(theirs_s / s for s, theirs_s in pairs))

    def value(which: int) -> float:
        return in_unit(statistics.median(columns[which]), case.unit, case.work)

    extra: dict[str, Any] = {}
    if case.torch:
        extra = {"torch_value": value(2), "torch_ratio": ratio(2)}
    if case.nbytes:
        extra["point"] = (case.flops / case.nbytes, case.flops / ours_s)
    return Result(name, case.unit, case.reference, value(0), value(1), ratio(1), **extra)
