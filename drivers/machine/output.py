"""What the commands print: plain ASCII, and quiet when the reader has left (`| head -1`)."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import Final

from drivers.base.errors import escaped

_FAILED: Final = 1
_USUAL_CHARS, _LEAST_CHARS, _MOST_CHARS = 100, 40, 200


def width_chars() -> int:
    """Width of the reports: COLUMNS, else the terminal's, else 100."""
    found = shutil.get_terminal_size((_USUAL_CHARS, 1)).columns
    return min(max(found, _LEAST_CHARS), _MOST_CHARS)


def printable(text: str) -> str:
    """`text` with everything but printable ASCII and line ends written as an escape."""
    lines = "\n".join(map(escaped, text.split("\n")))
    return lines.encode("ascii", "backslashreplace").decode()


def print_text(text: str) -> int:
    """Write `text` and a line end to standard output; the exit status of the command."""
    return print_lines([text])


def print_lines(lines: Iterable[str]) -> int:
    """The same of lines, each as soon as it is made; errors of `lines` go to the caller."""
    try:
        for line in lines:
            sys.stdout.write(printable(line) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
    except OSError as error:
        _forget_output()
        sys.stderr.write(f"the output could not be written: {error.strerror}\n")
        return _FAILED
    return 0


def _forget_output() -> None:
    """What is still buffered goes nowhere, or the interpreter's exit would try it once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
