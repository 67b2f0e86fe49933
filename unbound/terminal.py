"""How commands end: Ctrl-C in one line, a closed pipe quietly, a missing module with its extra.

It imports nothing of ours, so that it is there before what a command imports.
"""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn, TextIO, TypeAlias

Status: TypeAlias = "int | str | None"
"""As sys.exit() takes it."""
FAILED: Final = 1
_MODULE: Final = "-m"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def name() -> str:
    """What the user started: "drivers.probe", "bench.py"."""
    return _module() or Path(sys.argv[0]).name


def _module() -> str:
    """The module that `python -m` runs, or ""."""
    given = sys.orig_argv
    at = given.index(_MODULE) + 1 if _MODULE in given else len(given)
    return given[at] if at < len(given) else ""


def begin(package: str) -> None:
    """In a package's __init__: where `python -m` runs one of its modules, Ctrl-C is one line.

    While Python looks for the module, sys.argv[0] is "-m". A program that imports the package is
    left alone.
    # src: Python documentation, "Command line and environment", -m
    """
    if sys.argv[:1] == [_MODULE] and _module().partition(".")[0] == package:
        end_interrupts_in_one_line()


def end_interrupts_in_one_line() -> None:
    """A Ctrl-C that nothing handles shows no traceback; the process still ends by SIGINT."""
    sys.excepthook = _shown


def _shown(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write(f"{name()}: interrupted\n")
    else:
        sys.__excepthook__(kind, error, trace)


def run(main: Callable[[list[str]], Status], *expected: type[Exception]) -> NoReturn:
    """A command: `main` gets its arguments and returns its exit status.

    Errors that are `expected` are printed in one line, with exit status 1.
    """
    end_interrupts_in_one_line()
    try:
        status = main(sys.argv[1:])
    except SystemExit as ending:  # of argparse
        status = ending.code
    except expected as error:
        sys.stderr.write(f"{name()}: {error}\n")
        status = FAILED
    except ModuleNotFoundError as error:
        text = lacking(error)
        if not text:
            raise
        sys.stderr.write(f"{name()}: {text}\n")
        status = FAILED
    except OSError as error:
        if reader_left():
            status = 0
        elif error.errno in _FULL:
            status = _full(error)
        else:
            raise
    sys.exit(_unwritten() or status)


def lacking(error: ModuleNotFoundError) -> str:
    """Which optional package a program lacks, and how to install it; "": the module is another."""
    from unbound import extras

    module = (error.name or "").partition(".")[0]
    advice = extras.of_module(module)
    return f"{module} is not installed. {advice}" if advice else ""


def _unwritten() -> int:
    """Write what is buffered; the exit status where that fails: 0 where a reader left."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        forget(sys.stdout)
    except OSError as error:  # a full disk
        return _full(error)
    return 0


def _full(error: OSError) -> int:
    forget(sys.stdout)
    sys.stderr.write(f"{name()}: the output could not be written: {error.strerror}\n")
    return FAILED


def reader_left() -> bool:
    """Whether a pipe that this process prints to has no reader any more; it is then forgotten."""
    left = [stream for stream in (sys.stdout, sys.stderr) if _closed(stream)]
    for stream in left:
        forget(stream)
    return bool(left)


def _closed(stream: TextIO) -> bool:
    """Whether poll(2) reports an error at once, which for a pipe means that its reader left."""
    poll = select.poll()
    try:
        poll.register(stream.fileno(), select.POLLOUT)
    except (OSError, ValueError):  # no descriptor: a stream of a test, or closed
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))


def forget(stream: TextIO) -> None:
    """What is still buffered goes nowhere, or the interpreter's exit would try it once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
