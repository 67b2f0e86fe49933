"""A trace of boards/access_log.py read back: last values, and the order of phases.

A reduced trace is the same format with each register's last write alone, and no reads; there
"GC[0-7].CP_STAT" is that register of eight instances.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TextIO

from boards.access_log import HEAD

MOST_LINES = 2_000_000
MOST_LINE_BYTES = 4096
MOST_REGISTERS = 1 << 16
MOST_PHASES = 256
"""Of phases, and of marks: they are searched in each line."""
MOST_CHARS = 256
"""Of a name."""
_WORD = 1 << 32
_INSTANCES = re.compile(r"([^\[]*)\[(\d+)(?:-(\d+))?\](.*)")
_MOST_INSTANCES = 64


class BadTrace(ValueError):
    """A file that is no trace of a board, with the line."""


@dataclass(slots=True)
class Summary:
    """What one client did to one board's registers, up to a mark."""

    board: str
    last: dict[str, int] = field(default_factory=dict)
    """Register to the value that was written last, in the order of the first writes."""
    reads: dict[str, int] = field(default_factory=dict)
    """Register to how often it was read."""
    writes: int = 0
    phases: list[str] = field(default_factory=list)
    """In the order of their first beginning."""
    marks: list[str] = field(default_factory=list)

    def reduced(self) -> Iterator[str]:
        """Lines of a reduced trace."""
        yield json.dumps({HEAD: self.board})
        for phase in self.phases:
            yield json.dumps({"op": "P", "phase": phase})
        for register, value in _grouped(self.last):
            yield json.dumps({"op": "W", "register": register, "value": value})

    def renamed(self, old: str, new: str) -> Summary:
        """The same with a part of each register's name replaced: another queue that does the job.

        Raises: ValueError where the new name is taken.
        """
        last = {name.replace(old, new): value for name, value in self.last.items()}
        if len(last) != len(self.last):
            raise ValueError(f"registers of {old} and of {new} are both written")
        reads = {name.replace(old, new): count for name, count in self.reads.items()}
        return Summary(self.board, last, reads, self.writes, self.phases, self.marks)


def _grouped(last: dict[str, int]) -> Iterator[tuple[str, int]]:
    """Registers with their values; neighbouring instances with one value are one."""
    groups: dict[tuple[str, str, int], list[int]] = {}
    for register, value in last.items():
        parts = _INSTANCES.fullmatch(register)
        if parts is None:
            raise ValueError(f"{register} has no instance")
        groups.setdefault((parts[1], parts[4], value), []).append(int(parts[2]))
    for (block, rest, value), numbers in groups.items():
        numbers.sort()
        for run in _runs(numbers):
            span = f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}"
            yield f"{block}[{span}]{rest}", value


def _runs(numbers: list[int]) -> Iterator[list[int]]:
    start = 0
    for at in range(1, len(numbers) + 1):
        if at == len(numbers) or numbers[at] != numbers[at - 1] + 1:
            yield numbers[start:at]
            start = at


def _registers(register: str) -> list[str]:
    """What a name of a reduced trace stands for. Raises: ValueError."""
    parts = _INSTANCES.fullmatch(register)
    if parts is None or parts[3] is None:
        return [register]
    first, last = int(parts[2]), int(parts[3])
    if not first < last < first + _MOST_INSTANCES:
        raise ValueError(f"instances of {register!r}")
    return [f"{parts[1]}[{number}]{parts[4]}" for number in range(first, last + 1)]


def bounded(file: TextIO) -> Iterator[str]:
    """Lines of a file, each no longer than `read` takes, and one more than it takes at most."""
    for _ in range(MOST_LINES + 1):
        line = file.readline(MOST_LINE_BYTES + 1)
        if not line:
            return
        yield line


def read(lines: Iterable[str], what: str, until: str = "") -> Summary:
    """A trace, up to a mark if it has that one. Raises: BadTrace."""
    summary: Summary | None = None
    for number, line in enumerate(lines, 1):
        if number > MOST_LINES or len(line) > MOST_LINE_BYTES:
            raise BadTrace(f"{what}, line {number}: longer than a trace can be")
        try:
            facts = json.loads(line)
            if summary is None:
                summary = Summary(_text(facts[HEAD]))
            else:
                _take(summary, facts)
                _check(summary)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise BadTrace(f"{what}, line {number} is no line of a trace: {error}") from error
        if until and until in summary.marks:
            break
    if summary is None:
        raise BadTrace(f"{what}: an empty file")
    return summary


def _check(summary: Summary) -> None:
    """Raises: ValueError for more names than a GPU has."""
    if max(len(summary.last), len(summary.reads)) > MOST_REGISTERS:
        raise ValueError(f"more than {MOST_REGISTERS} registers")
    if max(len(summary.phases), len(summary.marks)) > MOST_PHASES:
        raise ValueError(f"more than {MOST_PHASES} phases or marks")


def _take(summary: Summary, facts: dict[str, object]) -> None:
    """Raises: ValueError, KeyError, TypeError."""
    op = facts["op"]
    times = _word(facts.get("times", 1))
    if op == "W":
        value = _word(facts["value"])
        for register in _registers(_text(facts["register"])):
            summary.last[register] = value
        summary.writes += times
    elif op == "R":
        register = _text(facts["register"])
        _word(facts["value"])
        summary.reads[register] = summary.reads.get(register, 0) + times
    elif op == "P":
        phase = _text(facts["phase"])
        if phase not in summary.phases:
            summary.phases.append(phase)
    elif op == "M":
        summary.marks.append(_text(facts["mark"]))
    elif op != "E":
        raise ValueError(f"{op!r} is none of R, W, P, M, E")


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > MOST_CHARS:
        raise TypeError(f"{ascii(value)[:MOST_CHARS]} is no name")
    if not value.isascii() or not value.isprintable():
        raise TypeError(f"{value!a} is no name that can be printed")
    return value


def _word(value: object) -> int:
    if type(value) is not int or not 0 <= value < _WORD:
        raise ValueError(f"{value!r} is no dword")
    return value
