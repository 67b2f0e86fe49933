"""`python -m drivers.replay FILE --board gfx1100`: play a trace back to a software GPU.

Every write of the trace is done again, every read compared with what was read then. Of reads that
repeat (a register was waited for) the last one counts: a board answers in its own time.
"""

from __future__ import annotations

import argparse
import json
import sys
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from drivers.base.errors import DeviceError, MalformedInput
from drivers.base.inputs import read_lines
from drivers.machine.output import print_lines

REGISTER_BAR: Final = 5
_WORD_BYTES: Final = 4
_WORD_MASK: Final = 0xFFFF_FFFF
_MOST_SHOWN: Final = 20
_MOST_BYTES: Final = 1 << 30
_MOST_LINE_BYTES: Final = 64 << 20
"""One line holds one write to VRAM; firmware files are the largest, below 16 MiB."""


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


def lines(text: Iterable[str], what: str) -> Iterator[Line]:
    """The accesses of a trace. Raises: MalformedInput with the line."""
    for number, one in enumerate(text, 1):
        try:
            yield _line(number, json.loads(one))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise MalformedInput(
                f"{what}, line {number} is no access of a trace: {error}",
                hint="Traces are written by --trace FILE",
            ) from error


def _line(number: int, found: dict[str, object]) -> Line:
    """Raises: ValueError, KeyError, TypeError."""
    op, step = found["op"], found.get("step", "")
    if op not in ("R", "W") or not isinstance(step, str):
        raise ValueError("an access is R or W, in a step")
    if "data" in found:
        data = b64decode(_text(found["data"]), validate=True)
        return Line(number, step, "W", _number(found["bar"], 6), _number(found["offset"]), "", 0,
                    data)  # fmt: skip
    off = _number(found["dword"]) * _WORD_BYTES
    value = _number(found["value"], _WORD_MASK + 1)
    return Line(number, step, str(op), REGISTER_BAR, off, _text(found["register"]), value, None)


def _number(value: object, limit: int = 1 << 48) -> int:
    if type(value) is not int or not 0 <= value < limit:
        raise ValueError(f"{value!r} is no number below {limit:#x}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def play(trace: Iterable[Line], function: Function) -> tuple[int, list[Difference]]:
    """(accesses done, differences). Hardware: all that the trace wrote is written."""
    count, differences = 0, list[Difference]()
    waited: Difference | None = None
    for line in trace:
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
    return count, differences


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


def _board(chip: str, vram_bytes: int, *, firmware: bool) -> Function:
    """A software GPU with its BARs switched on."""
    from boards.amd.pci.replayed import powered_on

    return powered_on(chip, vram_bytes, firmware=firmware)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m drivers.replay", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("file", help="what --trace FILE wrote")
    parser.add_argument("--board", required=True, metavar="CHIP", help="gfx1100, gfx1201, ...")
    parser.add_argument("--vram-mib", type=int, default=1024, help="memory of the board")
    parser.add_argument(
        "--any-firmware", action="store_true",
        help="the board takes firmware that it cannot judge: for traces of real GPUs",
    )  # fmt: skip
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. 0: every read gave what it gave then."""
    args = _parser().parse_args(argv)
    try:
        text = (str(line, "ascii") for line in read_lines(args.file, _MOST_BYTES, _MOST_LINE_BYTES))
        function = _board(args.board, args.vram_mib << 20, firmware=not args.any_firmware)
        count, differences = play(lines(text, args.file), function)
    except (DeviceError, OSError, ValueError) as error:
        print(f"drivers.replay: {error}", file=sys.stderr)
        return 2
    shown = [str(difference) for difference in differences[:_MOST_SHOWN]]
    if len(differences) > _MOST_SHOWN:
        shown.append(f"... and {len(differences) - _MOST_SHOWN} more")
    shown.append(f"{count} accesses on board {args.board}: {len(differences)} reads differ")
    return print_lines(shown) or int(bool(differences))


if __name__ == "__main__":
    sys.exit(main())
