"""The interpreter ends while daemon threads compute: no traceback, no hang, status 0."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests import opencl, webgpu
from tests.support import check, run_limited

CHILD = """
import itertools, sys, threading
import numpy as np
import tensor as xp

work, device = sys.argv[1:]
x = xp.asarray(np.arange(1000, dtype=np.float32), device=device)
started = threading.Barrier(4)

def run(first):
    for turn in itertools.count():
        if work == "compute":
            (x * 3.0).numpy()
        elif work == "compile":
            (x * float(first + turn) + float(first)).numpy()
        else:
            xp.asarray(x, copy=True).numpy()
        if turn == 3:
            started.wait(60)

for number in range(3):
    threading.Thread(target=run, args=(100_000 * number,), daemon=True).start()
started.wait(60)
print("end", flush=True)
"""


def ended(work: str, device: str, folder: Path, *flags: str, **more: str) -> None:
    cache = folder / "cache"
    cache.mkdir(mode=0o700)
    done = run_limited(
        [sys.executable, *flags, "-c", CHILD, work, device],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "UNBOUND_CACHE": str(cache), **more},
        capture_output=True, text=True, cpu_s=120, check=False,
    )  # fmt: skip
    check(
        (done.returncode, done.stdout) == (0, "end\n"), f"{done.returncode} {done.stderr[-2000:]}"
    )
    said = "Traceback" in done.stderr if more else bool(done.stderr)  # libraries may warn
    check(not said, done.stderr[-2000:])


@pytest.mark.parametrize("flags", [(), ("-X", "dev", "-W", "error")], ids=["", "-X dev"])
@pytest.mark.parametrize("work", ["compute", "compile", "copy"])
def test_daemon_threads_that_use_the_processor(
    work: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    ended(work, "CPU", tmp_path, *flags)


def test_daemon_threads_that_use_opencl(tmp_path: Path) -> None:
    ended("compute", "CL", tmp_path, CL_DEVICE=opencl.need("pocl"))


def test_daemon_threads_that_use_webgpu(tmp_path: Path) -> None:
    ended("compute", "WEBGPU", tmp_path, WEBGPU_DEVICE=webgpu.need("wgpu"))


MISTAKE = """
import threading, tensor as xp
from drivers.base import exits
from drivers.base.errors import UseAfterFree

def raises(error):
    raise error

exits.end_quietly()
for error, daemon in ((UseAfterFree("daemon"), True), (UseAfterFree("joined"), False),
                      (ValueError("another"), True)):
    thread = threading.Thread(target=raises, args=(error,), daemon=daemon)
    thread.start()
    thread.join()
"""


def test_other_errors_of_threads_are_still_shown() -> None:
    done = run_limited(
        [sys.executable, "-c", MISTAKE],
        cwd=Path(__file__).parents[2],
        capture_output=True, text=True, cpu_s=120, check=False,
    )  # fmt: skip
    check("daemon" not in done.stderr.replace("daemon=", ""), done.stderr)
    check("joined" in done.stderr and "another" in done.stderr, done.stderr)
