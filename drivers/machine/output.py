"""What the commands print: plain ASCII, and quiet when the reader has left (`| head -1`)."""

from __future__ import annotations

import os
import sys
from typing import Final

_FAILED: Final = 1


def printable(text: str) -> str:
    """`text` with everything but printable ASCII and line ends written as an escape."""
    return "".join(
        c if c == "\n" or (c.isascii() and c.isprintable()) else c.encode("unicode_escape").decode()
        for c in text
    )


def print_text(text: str) -> int:
    """Write `text` and a line end to standard output; the exit status of the command."""
    try:
        sys.stdout.write(printable(text) + "\n")
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
