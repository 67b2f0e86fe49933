"""What the commands called smi share: columns, a table of processes, looking again and again."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from drivers.base.contracts import World
from drivers.machine.output import width_chars
from drivers.machine.processes import UNSEEN, GpuProcess

NONE: Final = "-"
_GIB, _MIB = 1 << 30, 1 << 20
_MOST_LOOKS: Final = 1 << 31
_LEAST_S, _MOST_S = 0.1, 86_400.0
_DEFAULT_S: Final = 2.0
_CLEAR: Final = "\x1b[H\x1b[2J"
"""Home, and erase the screen. # src: ECMA-48, CUP and ED"""
_GAP: Final = "  "
_INDENT: Final = " " * 4


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with columns as wide as needed; the first row is the head, numbers are on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = [_is_number(column[1:]) for column in zip(*rows, strict=True)]
    return [
        _GAP.join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in rows
    ]


def _is_number(cells: Sequence[str]) -> bool:
    return all(cell == NONE or cell[:1].isdigit() or cell[:1] == "-" for cell in cells)


def notes(start: str, text: str, advice: str = "") -> list[str]:
    """A sentence about a GPU below the table, and what to do, no wider than a terminal."""
    lines = textwrap.wrap(f"{start}: {text}", width_chars(), subsequent_indent=_INDENT,
                          break_on_hyphens=False)  # fmt: skip
    step = textwrap.wrap(f"-> {advice}", width_chars(), initial_indent=_INDENT,
                         subsequent_indent=_INDENT)  # fmt: skip
    return [*lines, *(step if advice else [])]


def gib(nbytes: float | None) -> str:
    """A size, or "-"."""
    return NONE if nbytes is None else f"{nbytes / _GIB:.1f}"


def whole(value: float | None) -> str:
    """A reading without its fraction, or "-"."""
    return NONE if value is None else f"{value:.0f}"


def processes_lines(held: Sequence[tuple[str, Sequence[GpuProcess]]], unseen: int) -> list[str]:
    """A table of the processes of each GPU (its name first), and whether there may be more."""
    rows = [
        (gpu, str(one.pid), one.name or NONE, _mib(one.memory_bytes))
        for gpu, processes in held
        for one in processes
    ]
    lines = columns([("GPU", "PID", "process", "memory MiB"), *rows]) if rows else []
    if not rows:
        lines = ["no process uses a GPU" if not unseen else "no process of this user uses a GPU"]
    return [*lines, *([f"{unseen} {UNSEEN}"] if unseen else [])]


def _mib(nbytes: int | None) -> str:
    return NONE if nbytes is None else f"{nbytes / _MIB:.1f}"


def _seconds(text: str) -> float:
    value = float(text)
    if not _LEAST_S <= value <= _MOST_S:
        raise argparse.ArgumentTypeError(f"{text} is not between {_LEAST_S:g} and {_MOST_S:g}")
    return value


def add_smi_options(parser: argparse.ArgumentParser) -> None:
    """--json and --watch."""
    parser.add_argument("--json", action="store_true", help="print JSON: a document for each look")
    parser.add_argument(
        "--watch", metavar="SECONDS", nargs="?", type=_seconds, const=_DEFAULT_S,
        help=f"look again every SECONDS ({_DEFAULT_S:g}) until Ctrl-C; keeps sleeping GPUs awake",
    )  # fmt: skip


def watched(
    world: World, look: Callable[[], str], every_s: float, looks: int = _MOST_LOOKS
) -> Iterator[str]:
    """What `look` returns, again and again; a terminal is cleared in between."""
    for number in range(looks):
        if number:
            world.sleep(every_s)
        text = look()
        if sys.stdout.isatty():
            sys.stdout.write(_CLEAR)
        yield text
        sys.stdout.flush()
