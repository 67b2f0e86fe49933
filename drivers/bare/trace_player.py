"""Play a trace of register accesses back to a software GPU, for `python -m drivers.replay`.

Every write of the trace is done again, every read compared with what was read then. Of reads that
repeat (a register was waited for) the last one counts: a board answers in its own time.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from drivers.base.errors import MalformedInput
from drivers.base.inputs import read_lines
from drivers.base.outside_json import parse

_WORD_BYTES: Final = 4
_WORD_MASK: Final = 0xFFFF_FFFF
MOST_BYTES: Final = 1 << 30
MOST_LINE_BYTES: Final = 8 << 20
"""One line holds one write to VRAM: 1 MiB at most, and whole firmware files in older traces."""
MOST_LINES: Final = 1 << 23
MOST_ELEMENTS: Final = 64
"""Of one line, which has six fields; commas in the name of a step count, too."""
MOST_CHARS: Final = 256
"""Of a register's name, or of a step's."""
MOST_DIFFERENCES: Final = 1000
"""So many reads that differ end a comparison: it is another GPU."""


class Function(Protocol):
    """What a trace is played to."""

    def read(self, bar: int, off: int, nbytes: int) -> int:
        """A read of 4 bytes."""

    def write(self, bar: int, off: int, nbytes: int, value: int) -> None:
        """A write of 4 bytes."""

    def place(self, bar: int, off: int, data: bytes) -> None:
        """Bytes written to a memory BAR."""


@dataclass(frozen=True, slots=True)
class Line:
    """One access: of a register, or bytes written to a memory BAR."""

    number: int
    step: str
    op: str
    bar: int
    off: int
    name: str
    value: int
    data: bytes | None
    """None: a register."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A read that gave something else than in the trace."""

    line: Line
    found: int

    def __str__(self) -> str:
        line = self.line
        step = f" ({line.step})" if line.step else ""
        return (
            f"line {line.number}{step}: {line.name} reads {self.found:#010x}, "
            f"{line.value:#010x} in the trace"
        )


def lines(text: Iterable[str], what: str, register_bar: int) -> Iterator[Line]:
    """The accesses of a trace, of dwords of a BAR. Raises: MalformedInput with the line."""
    for number, one in enumerate(text, 1):
        try:
            if number > MOST_LINES:
                raise ValueError(f"more than {MOST_LINES} lines")
            yield _line(number, parse(one.encode(), MOST_ELEMENTS), register_bar)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise MalformedInput(
                f"{what}, line {number} is not an access of a trace: {error}",
                hint="Traces are written by --trace FILE",
            ) from error


def _line(number: int, found: Any, register_bar: int) -> Line:
    """Raises: ValueError, KeyError, TypeError."""
    if not isinstance(found, dict):
        raise TypeError("no JSON object")
    op, step = found["op"], _name(found.get("step", ""))
    if op not in ("R", "W"):
        raise ValueError("an access is R or W, in a step")
    if "data" in found:
        data = b64decode(_text(found["data"]), validate=True)
        return Line(number, step, "W", _number(found["bar"], 6), _number(found["offset"]), "", 0,
                    data)  # fmt: skip
    off = _number(found["dword"]) * _WORD_BYTES
    value = _number(found["value"], _WORD_MASK + 1)
    return Line(number, step, str(op), register_bar, off, _name(found["register"]), value, None)


def _number(value: object, limit: int = 1 << 48) -> int:
    if type(value) is not int or not 0 <= value < limit:
        raise ValueError(f"{value!r} is not a number below {limit:#x}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _name(value: object) -> str:
    text = _text(value)
    if len(text) > MOST_CHARS:
        raise ValueError(f"a name of {len(text)} characters")
    return text


def play(trace: Iterable[Line], function: Function) -> tuple[int, list[Difference]]:
    """(accesses done, differences); MOST_DIFFERENCES end it.

    Hardware: all that the trace wrote is written.
    """
    count, differences = 0, list[Difference]()
    waited: Difference | None = None
    for line in trace:
        if len(differences) >= MOST_DIFFERENCES:
            break
        count += 1
        if line.op == "W":
            _write(function, line)
            waited = _settled(waited, None, differences)
            continue
        found = function.read(line.bar, line.off, _WORD_BYTES)
        waited = _settled(waited, line, differences)
        if found != line.value:
            waited = Difference(line, found)
    _settled(waited, None, differences)
    return count, differences[:MOST_DIFFERENCES]


def _settled(
    waited: Difference | None, line: Line | None, differences: list[Difference]
) -> Difference | None:
    """Keep the last difference, unless `line` reads the same register once more."""
    if waited is not None and (line is None or line.off != waited.line.off):
        differences.append(waited)
    return None


def _write(function: Function, line: Line) -> None:
    if line.data is not None:
        function.place(line.bar, line.off, line.data)
    else:
        function.write(line.bar, line.off, _WORD_BYTES, line.value)


def play_file(path: str, function: Function, register_bar: int) -> tuple[int, list[str]]:
    """(accesses done, differences in words) of the trace in a file.

    Raises: NotFound, MalformedInput; ValueError where the function refuses an access.
    """
    text = (str(line, "ascii", "replace") for line in read_lines(path, MOST_BYTES, MOST_LINE_BYTES))
    count, differences = play(lines(text, path, register_bar), function)
    found = [str(difference) for difference in differences]
    if len(found) == MOST_DIFFERENCES:
        found.append(f"the comparison ends after {MOST_DIFFERENCES} differences")
    return count, found
