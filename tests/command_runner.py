"""`python -m tests.command_runner < JOBS`: commands of Python, each in a fork of this process.

Standard input is JSON, a list of jobs; the output is JSON, a list of results in their order. What
most commands import is imported once, before the forks: a command costs what it does itself.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import runpy
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

COMMON = ("tensor", "drivers.probe.__main__", "boards.front", "compilers.amd.family")
PARSED = 64
"""Exit status of a command that is only to be parsed, and was."""
UNFINISHED = 70
CPU_S = 60
"""What a command may use of the processor before the kernel ends it."""
ASLEEP_S = 180
"""After so long a command that waits for something is ended, by SIGALRM."""


def _parse_only() -> None:
    """From now on the first parser that accepts its arguments ends the process."""
    real = argparse.ArgumentParser.parse_args

    def accepted(self: argparse.ArgumentParser, *arguments: Any) -> NoReturn:
        real(self, *arguments)
        os._exit(PARSED)

    def refuse(event: str, _: object) -> None:
        if event in ("subprocess.Popen", "os.system", "os.posix_spawn", "socket.connect"):
            raise PermissionError(f"{event} before the arguments were parsed")

    patch.object(argparse.ArgumentParser, "parse_args", accepted).start()
    sys.addaudithook(refuse)


def _run(words: Sequence[str]) -> int:
    """The exit status of `python WORDS`, run here."""
    module = words[0] == "-m"
    sys.argv = list(words[1:] if module else words)
    try:
        if module:
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(words[0]).resolve().parent))
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, int | None):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    return 0


def _child(job: dict[str, Any], output: int) -> NoReturn:
    status = UNFINISHED
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    signal.alarm(ASLEEP_S)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(job["settings"])
    if job["parse"]:
        _parse_only()
    try:
        status = _run(job["words"])
    except Exception:  # printed, as an interpreter does at its end
        traceback.print_exc()
        status = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def run(job: dict[str, Any]) -> dict[str, Any]:
    """{"status", "output"} of one job: "words", "settings", and "parse" if that is all."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(job, write)
    os.close(write)
    with open(read, "rb") as pipe:
        output = pipe.read()
    _, ended = os.waitpid(pid, 0)
    return {"status": os.waitstatus_to_exitcode(ended), "output": output.decode(errors="replace")}


def main() -> None:
    """Read jobs, import what is common, run each."""
    jobs = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        for name in COMMON:
            __import__(name)
    json.dump([run(job) for job in jobs], sys.stdout)


if __name__ == "__main__":
    main()
