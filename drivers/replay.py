"""`python -m drivers.replay FILE`: play a recording or a trace back without the GPU.

A recording of `python -m drivers.record` is the machine: the program runs on it again, and what the
driver does otherwise than then is reported. A register trace of a GPU over PCI is played to a
software GPU (`--board`), and reads that give something else are reported.

A file may be a stranger's: its arguments are shown, and given to the program with `--arguments`
alone; an example runs in an empty temporary folder.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from drivers import taped_program as taped
from drivers.bare.trace_player import MOST_BYTES as TRACE_BYTES
from drivers.bare.trace_player import MOST_LINE_BYTES
from drivers.base.contracts import Device
from drivers.base.errors import BadArgument, DeviceError, NotFound
from drivers.base.inputs import read_lines
from drivers.base.outside_json import parse
from drivers.choice import split_name
from drivers.kinds import BEST_FIRST, BY_NAME, named
from drivers.machine.output import print_lines, printable
from drivers.registry import open_device
from drivers.world.memory_state import MemoryState
from drivers.world.recording import Header
from drivers.world.recording_text import MAX_ELEMENTS, opened
from drivers.world.replay import ReplayMismatch, ReplayWorld
from unbound import terminal

_MOST_SHOWN: Final = 20
_SHOWN_CHARS: Final = 1000
_PATH_PARTS: Final = ("/", "\\", "~", "\0")
Own = Sequence[str] | None
"""Arguments that the user has given, None without any."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m drivers.replay", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("file", help="what drivers.record or --trace FILE wrote")
    program = parser.add_argument(
        "program", nargs=argparse.PARSER, metavar="PROGRAM",
        help="of a recording: the program that was recorded, and arguments for it; examples are "
        "found by themselves",
    )  # fmt: skip
    program.required = False
    parser.add_argument(
        "--arguments", action="store_true",
        help="of a recording: give its program the arguments that the file has",
    )  # fmt: skip
    traced = [kind.name for kind in BEST_FIRST if kind.plays]
    parser.add_argument("--kind", choices=traced, default=traced[0], help="of a trace: whose")
    parser.add_argument("--board", metavar="CHIP", help="of a trace: gfx1100, gfx1201, ...")
    parser.add_argument("--vram-mib", type=int, default=1024, help="of a trace: the board's memory")
    parser.add_argument(
        "--any-firmware", action="store_true",
        help="the board takes firmware that it cannot judge: for traces of real GPUs",
    )  # fmt: skip
    return parser


def is_recording(path: str) -> bool:
    """Whether a file begins as a recording does, or else as a trace.

    Raises: NotFound, MalformedInput; BadArgument for a file that is neither.
    """
    with closing(read_lines(path, TRACE_BYTES, MOST_LINE_BYTES)) as lines:
        first = next(lines, b"")
    try:
        value: Any = parse(first, MAX_ELEMENTS)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict) and ("recording" in value or "args" in value):
        return True
    if isinstance(value, dict) and value.get("op") in ("R", "W"):
        return False
    raise BadArgument(
        f"{path} is neither a recording nor a trace",
        hint="python -m drivers.record writes recordings, over PCI traces",
    )


def _program(header: Header, given: Path | None) -> Path:
    """The program to run again: the recording holds none of it. Raises: NotFound."""
    found = given or taped.example(header.program, header.sha256)
    if found is None:
        raise NotFound(
            f"the recording is of {header.program!a}, which is not an example of this version",
            hint="name the program behind the file",
        )
    return found


def _arguments(header: Header, own: Own, *, example: bool, recorded: bool) -> Sequence[str]:
    """What the program gets: the user's own, or the file's where the user asks for these.

    Raises: BadArgument with the file's arguments, and for an example where one may be a path.
    """
    if own is not None or not header.arguments:
        return own or ()
    shown = ascii(shlex.join(header.arguments))[1:-1]
    shown = shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}..."
    if not recorded:
        raise BadArgument(
            f"it was recorded with the arguments {shown}",
            hint="Add --arguments to use these, or write your own behind the program",
        )
    paths = [text for text in header.arguments if _may_be_path(text)]
    if example and paths:
        raise BadArgument(
            f"it was recorded with the arguments {shown}: {ascii(paths[0])[:_SHOWN_CHARS]} may be "
            "a path, which no example gets from a file",
            hint="Write your own arguments behind the example's path",
        )
    return header.arguments


def _may_be_path(text: str) -> bool:
    """Whether a text could name something outside of the folder in which a program runs."""
    return ".." in text or any(part in text for part in _PATH_PARTS)


@contextmanager
def _empty_folder(shown: list[str]) -> Iterator[None]:
    """Inside, the current folder is a new one of this user's, removed at the end."""
    with TemporaryDirectory(prefix="unbound-replay-") as folder, chdir(folder):
        yield
        names = sorted(os.listdir())
        if names:
            shown.append(f"note: {', '.join(names)}: written to a temporary folder, and removed")


def play_recording(
    path: str, given: Path | None, own: Own = None, *, recorded: bool = False
) -> tuple[list[str], int]:
    """(lines to print, how many differences) of a recording whose program runs again on it.

    The program gets the arguments `own`, or with `recorded` the file's.
    Raises: MalformedInput; NotFound for the program; BadArgument for arguments; what the driver
    raises by itself.
    """
    with closing(opened(path)) as lines:
        world = ReplayWorld(lines)
        header = world.header
        if header is None:
            raise BadArgument(f"{path} does not say what was recorded", hint="record it again")
        program = _program(header, given)
        shipped = given is None or taped.is_example(program)
        arguments = _arguments(header, own, example=shipped, recorded=recorded)
        shown: list[str] = []
        if taped.digest(program) != header.sha256:
            shown.append(f"note: {program} is not the program that was recorded")
        if shipped and own is None:
            program = program.resolve()
            with _empty_folder(shown):
                status = _played(world, header, program, arguments)
        else:
            status = _played(world, header, program, arguments)
    if status:
        shown.append(f"note: the program ended with status {status}")
    shown += world.differences[:_MOST_SHOWN]
    if world.differ > _MOST_SHOWN:
        shown.append(f"... and {world.differ - _MOST_SHOWN} more")
    shown.append(f"{world.count} operations of {header.program}: {world.differ} differences")
    return shown, world.differ


def _played(world: ReplayWorld, header: Header, program: Path, arguments: Sequence[str]) -> int:
    """The program's exit status; 1 where the replay ended before it."""
    try:
        status = taped.run_on(
            header.device, _opener(world, header), program, arguments, sys.stderr
        )  # fmt: skip
        world.finish()
    except ReplayMismatch:
        return 1
    return status


def _opener(world: ReplayWorld, header: Header) -> Callable[[], Device]:
    """What opens the device of a recording; its locks are in memory. Raises: BadChoice."""
    name = header.device
    kind = BY_NAME[split_name(name)[0]]
    environ = taped.choices(header.environ, name)
    state = MemoryState() if any(way.taped for way in kind.ways) else None
    return lambda: open_device(name, world=world, environ=environ, state=state)


def _traced(args: argparse.Namespace) -> tuple[list[str], int]:
    """(lines to print, how many reads differ) of a trace that is played to a board."""
    if not args.board:
        raise BadArgument("a register trace is played to a board", hint="add --board CHIP")
    play = named(BY_NAME[args.kind].plays)
    count, differences = play(
        args.file, args.board, vram_bytes=args.vram_mib << 20, any_firmware=args.any_firmware
    )
    shown = differences[:_MOST_SHOWN]
    if len(differences) > _MOST_SHOWN:
        shown.append(f"... and {len(differences) - _MOST_SHOWN} more")
    shown.append(f"{count} accesses on board {args.board}: {len(differences)} reads differ")
    return shown, len(differences)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. 0: everything was as it was then; 1: differences; 2: unusable."""
    args = _parser().parse_args(argv)
    program, *own = args.program or [None]
    try:
        if is_recording(args.file):
            shown, differ = play_recording(
                args.file, Path(program) if program else None, own or None, recorded=args.arguments
            )
        else:
            shown, differ = _traced(args)
    except (DeviceError, OSError, ValueError) as error:
        print(f"drivers.replay: {printable(str(error))}", file=sys.stderr)
        return 2
    return print_lines(shown) or int(differ > 0)


if __name__ == "__main__":
    terminal.run(main)
