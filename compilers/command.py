"""What the command lines of the compilers share: a parser with examples, errors in one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable

from drivers.base.errors import CompileError, DeviceError
from drivers.machine.output import print_lines


def command_parser(module: str, description: str, examples: str) -> argparse.ArgumentParser:
    """The parser of a command `module`, which prints the examples as they are written."""
    return argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run_command(lines: Callable[[], Iterable[str]]) -> int:
    """Print lines; 1 after a DeviceError, which is printed with the compiler's log."""
    try:
        return print_lines(lines())
    except DeviceError as error:
        log = f"\n{error.log}" if isinstance(error, CompileError) else ""
        print(f"error: {error}{log}", file=sys.stderr)
        return 1
