"""`bench.py --board gfx1100`: results beside numpy's, and how long the software GPU takes for them.

The times are those of an emulator. They say how long tests take, and nothing about silicon.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.measure import WrongResult
from benchmarks.process import fresh_matmul
from benchmarks.tensor_rows import LAYERNORM_EPS, numpy_layernorm, numpy_softmax
from boards.run import powered
from boards.setup import Setup
from boards.vendors import vendor_of
from drivers.base.errors import DeviceError

Array = npt.NDArray[Any]
NOTE = "on a software board: no statement about silicon speed"
SEED = 20261121
REPEATS = 3
"""Warm runs, of which the fastest is shown: the board does the same work each time."""
HEADER = (
    f"{'row':<18}{'first s':>9}{'warm s':>9}{'cpu s':>9}{'goal s':>8}   {'off by':>9}{'allowed':>9}"
)
"""Seconds; the goal is for processor time, which is that of the fastest warm run."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is computed, on which arrays, and how far off it may be of the largest value."""

    name: str
    shape: tuple[int, ...]
    ours: Callable[[Any, Any], Any]
    """(tensor namespace, tensor) -> tensor."""
    theirs: Callable[[Array], Array]
    tolerance: float
    dtype: str = "float32"
    goal_s: float | None = None
    """Of a warm run, where there is one."""


@dataclass(slots=True)
class Result:
    """One row of the table; times in seconds, end to end from numpy's array to numpy's array."""

    name: str
    first_s: float | None = None
    """With the kernels still to compile, unless the cache has them."""
    warm_s: float | None = None
    goal_s: float | None = None
    cpu_s: float | None = None
    """Processor time of the run that the goal is for, which a busy machine does not lengthen."""
    off_by: float | None = None
    tolerance: float = 0.0
    error: str = ""

    @property
    def failed(self) -> bool:
        """Whether the result is wrong or missing."""
        return bool(self.error)

    def line(self) -> str:
        """The row as the table shows it."""
        if self.error:
            return f"{self.name:<18}    ERROR {self.error}"
        cells = "".join(
            f"{'' if value is None else format(value, '.3f'):>{width}}"
            for value, width in (
                (self.first_s, 9),
                (self.warm_s, 9),
                (self.cpu_s, 9),
                (self.goal_s, 8),
            )
        )
        missed = "  goal missed" if self.missed else ""
        return f"{self.name:<18}{cells}   {self.off_by:>9.1e}{self.tolerance:>9.0e}{missed}"

    @property
    def missed(self) -> bool:
        """Whether it took more processor time than its goal."""
        return self.goal_s is not None and self.cpu_s is not None and self.cpu_s > self.goal_s


def _square(xp: Any, x: Any) -> Any:
    return x @ x


def _rows() -> Iterator[Row]:
    """Every row, in the order of the table."""
    for side, goal_s in ((256, 0.5), (512, 3.0)):
        yield Row(
            f"matmul_f32_{side}", (side, side), _square, lambda a: a @ a, 1e-5, "float32", goal_s
        )
    for short, dtype, tolerance in (("f16", "float16", 2e-3), ("bf16", "bfloat16", 1e-2)):
        yield Row(f"matmul_{short}_256", (256, 256), _square, lambda a: a @ a, tolerance, dtype)
    yield Row(
        "softmax_64x512", (64, 512), lambda xp, x: xp.softmax(x, axis=-1), numpy_softmax, 1e-5
    )
    yield Row(
        "layernorm_64x512", (64, 512), lambda xp, x: xp.layer_norm(x, eps=LAYERNORM_EPS),
        numpy_layernorm, 1e-4,
    )  # fmt: skip
    yield Row(
        "sum_1MiB", (1 << 18,), lambda xp, x: xp.sum(x), lambda a: np.sum(a, keepdims=True), 1e-5
    )
    yield Row("add_1MiB", (1 << 18,), lambda xp, x: x + x, lambda a: a + a, 0.0)


ROWS = {row.name: row for row in _rows()}
COLD_GOALS_S = {256: 2.0, 512: 3.0}
COLD = {f"cold_matmul_{side}": side for side in COLD_GOALS_S}
"""In a fresh process with an empty kernel cache: everything from `python` to the result."""
NAMES = (*ROWS, *COLD)


def off_by(got: Array, want: Array) -> float:
    """Largest difference, of the largest value. Raises: WrongResult for another shape."""
    if got.size != want.size:
        raise WrongResult(f"shape {got.shape}, expected {want.shape}")
    scale = float(np.max(np.abs(want))) or 1.0
    return float(np.max(np.abs(got.reshape(want.shape).astype(np.float64) - want))) / scale


def _values(row: Row, xp: Any, device: str) -> tuple[Any, Array]:
    """The operand as a function of nothing, so that each run copies it in, and as numpy sees it."""
    rng = np.random.default_rng(SEED)
    array = rng.random(row.shape, dtype=np.float32) - np.float32(0.5)
    if row.dtype == "float32":
        return lambda: xp.asarray(array, device=device), array.astype(np.float64)
    cast = xp.astype(xp.asarray(array, device=device), getattr(xp, row.dtype)).realize()
    return lambda: cast, np.asarray(cast.numpy(), dtype=np.float64)


def run_row(row: Row, device: str) -> Result:
    """Compute, compare, compute again. A wrong result is an error."""
    import tensor as xp

    operand, exact = _values(row, xp, device)
    want = np.asarray(row.theirs(exact))
    taken: list[tuple[float, float]] = []
    worst = 0.0
    for _ in range(1 + REPEATS):
        start_s, start_cpu_s = time.perf_counter(), time.process_time()
        got = np.asarray(row.ours(xp, operand()).numpy())
        taken.append((time.perf_counter() - start_s, time.process_time() - start_cpu_s))
        worst = max(worst, off_by(got, want))
    warm_s, cpu_s = min(taken[1:])
    result = Result(row.name, taken[0][0], warm_s, row.goal_s, cpu_s, worst, row.tolerance)
    if not worst <= row.tolerance:
        result.error = f"WrongResult: off by {worst:.2e}, {row.tolerance:.0e} allowed"
    return result


def cold_row(name: str, setup: Setup) -> Result:
    """A matrix product in a fresh process with an empty cache."""
    side = COLD[name]
    seconds, cpu_s, worst = fresh_matmul(setup.chip, side, setup.arguments)
    tolerance = 1e-5
    result = Result(name, seconds, None, COLD_GOALS_S[side], cpu_s, worst, tolerance)
    if not worst <= tolerance:
        result.error = f"WrongResult: off by {worst:.2e}, {tolerance:.0e} allowed"
    return result


def run(
    setup: Setup, names: Sequence[str], show: Callable[[str], object]
) -> tuple[list[Result], list[str]]:
    """Measure rows, showing each as soon as it is there; results and violations."""
    results: list[Result] = []
    device = vendor_of(setup.chip).device
    with powered(setup) as bench:
        for name in names:
            try:
                result = run_row(ROWS[name], device) if name in ROWS else cold_row(name, setup)
            except (DeviceError, WrongResult) as error:
                first = str(error).strip().splitlines() or [""]
                result = Result(name, error=f"{type(error).__name__}: {first[0]}")
            results.append(result)
            show(result.line())
    return results, [str(violation) for violation in bench.board.violations]


def report(setup: Setup, results: Sequence[Result], violations: Sequence[str]) -> dict[str, object]:
    """What --json writes."""
    rows = [asdict(result) for result in results]
    return {"board": setup.chip, "note": NOTE, "rows": rows, "violations": list(violations)}
