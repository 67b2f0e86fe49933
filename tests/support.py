"""Common to all tests."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Sequence
from typing import Any, Final

WALL_OF_CPU: Final = 10
"""Seconds on the clock for a second of processor time, on a machine with nothing else to do: a
child may wait for its disk, and a virtual machine for its turn."""


def check(condition: object, message: str = "") -> None:
    """An assertion that also holds under `python -O`."""
    if not condition:
        raise AssertionError(message or "check failed")


def patience(cpu_s: float) -> float:
    """How long to wait for what takes so much processor time, however busy the machine is.

    It ends what hangs. What is too slow ends by its processor time.
    """
    waiting = os.getloadavg()[0] / (os.cpu_count() or 1)
    return cpu_s * WALL_OF_CPU * max(1.0, waiting)


def run_limited(
    words: Sequence[str | os.PathLike[str]], *, cpu_s: float, check: bool = False,
    capture_output: bool = False, input: str | bytes | None = None, **more: Any,
) -> subprocess.CompletedProcess[Any]:  # fmt: skip
    """subprocess.run() of a program that each of its processes may use so much processor time for.

    Raises: CalledProcessError with `check`, of SIGXCPU where it used more; TimeoutExpired.
    """
    if capture_output:
        more |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        more["stdin"] = subprocess.PIPE
    with subprocess.Popen(words, **more) as child:
        limit_processor_time(child.pid, cpu_s)
        try:
            output, errors = child.communicate(input, timeout=patience(cpu_s))
        except BaseException:
            child.kill()
            raise
    if check and child.returncode:
        raise subprocess.CalledProcessError(child.returncode, list(words), output, errors)
    return subprocess.CompletedProcess(list(words), child.returncode, output, errors)


def limit_processor_time(pid: int, cpu_s: float) -> None:
    """SIGXCPU for a process that uses more; programs that it starts from now on get as much."""
    prlimit = getattr(resource, "prlimit", None)  # Linux alone has it
    if prlimit is None:
        return
    try:
        hard = prlimit(pid, resource.RLIMIT_CPU)[1]
        prlimit(pid, resource.RLIMIT_CPU, (max(1, round(cpu_s)), hard))
    except ProcessLookupError:
        return  # it has ended
