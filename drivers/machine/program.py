"""Run a Python program inside a command, as `python PROGRAM ARGUMENTS` would."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from unbound import terminal


def run_program(path: Path, arguments: Sequence[str], stderr: TextIO) -> int:
    """Run a program as `python path arguments` would; its exit status, 1 for an exception."""
    saved = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [str(path), *arguments], str(path.resolve().parent)
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=stderr)
        return 1
    except ModuleNotFoundError as error:
        lacking = terminal.lacking(error)
        if not lacking:
            return _reported(error, path, stderr)
        print(f"{path.name}: {lacking}", file=stderr)
        return 1
    except BrokenPipeError as error:
        return 0 if terminal.reader_left() else _reported(error, path, stderr)
    except Exception as error:
        return _reported(error, path, stderr)
    finally:
        sys.argv, sys.path[0] = saved
    return 0


def _reported(error: Exception, path: Path, stderr: TextIO) -> int:
    """Print the traceback, from the program's own first line on; exit status 1."""
    seen = traceback.TracebackException.from_exception(error)
    own = [n for n, frame in enumerate(seen.stack) if frame.filename == str(path)]
    del seen.stack[: min(own, default=0)]  # how the program was started is of no interest
    print("".join(seen.format()), end="", file=stderr)
    return 1
