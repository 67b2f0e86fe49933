"""Rows that need a fresh interpreter: importing, and the first result from process start."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Case, Timer, WrongResult

ROOT = Path(__file__).resolve().parent.parent
CHILD_TIMEOUT_S = 120.0
FRESH_PAIRS = 5

IMPORT = "import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
FIRST = """
import numpy as np{extra}
a = np.arange(1024, dtype=np.float32)
result = {expression}
print(float(result.sum()), flush=True)
"""
OURS = FIRST.format(
    extra="\nimport tensor as xp", expression="(xp.asarray(a) * 2 + xp.asarray(a)).numpy()"
)
NUMPY = FIRST.format(extra="", expression="a * 2 + a")
EXPECTED = 3.0 * 1023 * 1024 / 2


def _child(code: str, cache: Path | None = None) -> tuple[float, float]:
    """Run `code` in a fresh interpreter: (seconds until its line of output, the number in it)."""
    environ = dict(os.environ, PYTHONPATH=str(ROOT))
    if cache is not None:
        environ |= {"UNBOUND_CACHE": str(cache / "unbound"), "XDG_CACHE_HOME": str(cache)}
    start_s = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        if child.stdout is None:
            raise WrongResult("the child process has no output")
        line = child.stdout.readline()
        seconds = time.perf_counter() - start_s
        _, log = child.communicate(timeout=CHILD_TIMEOUT_S)
    if child.returncode != 0:
        last = log.strip().splitlines()[-1:] or ["no message"]
        raise WrongResult(f"a fresh process failed: {last[0]}")
    return seconds, float(line)


def _first(code: str, cache: Path | None = None) -> float:
    seconds, result = _child(code, cache)
    if result != EXPECTED:
        raise WrongResult(f"first result is {result}, not {EXPECTED}")
    return seconds


def import_time() -> Case:
    """`import tensor`, numpy's own import included, beside `import numpy`."""

    def load(module: str) -> Timer:
        return lambda: _child(IMPORT.format(module=module))[1]

    return Case("s", "import numpy", load("tensor"), load("numpy"), least_pairs=FRESH_PAIRS)


def first_result(*, warm: bool) -> Case:
    """a * 2 + a from process start; cold: with an empty kernel cache each time."""

    def cold_run() -> float:
        with tempfile.TemporaryDirectory() as empty:
            seconds = _first(OURS, Path(empty))
            if not any(path.is_file() for path in Path(empty).rglob("*")):
                raise WrongResult("a cold start has put no kernel into its empty cache")
            return seconds

    if not warm:
        return Case("s", "numpy, fresh process", cold_run, lambda: _first(NUMPY))
    kept = tempfile.TemporaryDirectory()
    cache = Path(kept.name)

    def warm_run(_keep: object = kept) -> float:
        return _first(OURS, cache)

    return Case(
        "s", "numpy, fresh process", warm_run, lambda: _first(NUMPY), least_pairs=FRESH_PAIRS
    )


MATMUL = """
import sys, numpy as np, tensor as xp
side = int(sys.argv[1])
a = np.random.default_rng(side).random((side, side), dtype=np.float32) - np.float32(0.5)
got = (xp.asarray(a) @ xp.asarray(a)).numpy()
want = a.astype(np.float64) @ a
print(float(np.max(np.abs(got - want)) / np.max(np.abs(want))))
"""


def fresh_matmul(chip: str, side: int, arguments: Sequence[str]) -> tuple[float, float, float]:
    """A matrix product on a board, from process start with an empty cache.

    Returns seconds, seconds of processor time, and how far off the result is.

    Raises: WrongResult when the process fails, or its board found something.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "matmul.py"
        program.write_text(MATMUL)
        settings = {"UNBOUND_CACHE": str(Path(folder) / "cache"), "PYTHONPATH": str(ROOT)}
        start_s, start_cpu_s = time.perf_counter(), _children_cpu_s()
        done = subprocess.run(
            [sys.executable, "-m", "boards", "run", chip, *arguments,
             str(program), str(side)],
            env=dict(os.environ) | settings, capture_output=True, text=True,
            timeout=CHILD_TIMEOUT_S, check=False,
        )  # fmt: skip
        seconds, cpu_s = time.perf_counter() - start_s, _children_cpu_s() - start_cpu_s
    if done.returncode != 0:
        raise WrongResult(f"a fresh process failed: {done.stderr.strip().splitlines()[-1:]}")
    return seconds, cpu_s, float(done.stdout)


def _children_cpu_s() -> float:
    """Processor time of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
