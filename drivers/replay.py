"""`python -m drivers.replay FILE`: play a recording or a trace back without the GPU.

A recording of `python -m drivers.record` is the machine: the program runs on it again, and what the
driver does otherwise than then is reported. A register trace of a GPU over PCI is played to a
software GPU (`--board`), and reads that give something else are reported.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from drivers import taped_program as taped
from drivers.base.errors import BadArgument, DeviceError, NotFound
from drivers.base.inputs import read_lines
from drivers.kinds import BEST_FIRST, BY_NAME, named
from drivers.machine.output import print_lines
from drivers.registry import open_device
from drivers.world.recording import MAX_BYTES, MAX_LINE_BYTES, Header
from drivers.world.replay import ReplayMismatch, ReplayWorld

_MOST_SHOWN: Final = 20
_FIRST_BYTES: Final = 64 << 20
_TRACE_BYTES: Final = 1 << 30


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m drivers.replay", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("file", help="what drivers.record or --trace FILE wrote")
    parser.add_argument(
        "program", nargs="?", type=Path,
        help="of a recording: the program that was recorded; examples are found by themselves",
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
    """Whether a file begins as a recording does. Raises: NotFound, BadArgument, MalformedInput."""
    first = next(read_lines(path, _TRACE_BYTES, _FIRST_BYTES), b"")
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "recording" in value


def _program(header: Header, given: Path | None) -> Path:
    """The program to run again: the recording holds none of it. Raises: NotFound."""
    found = given or taped.example(header.program, header.sha256)
    if found is None:
        raise NotFound(
            f"the recording is of {header.program!r}, which is no example of this version",
            hint="name the program behind the file",
        )
    return found


def play_recording(path: str, given: Path | None) -> tuple[list[str], int]:
    """(lines to print, how many differences) of a recording whose program runs again on it.

    Raises: MalformedInput; NotFound for the program; what the driver raises by itself.
    """
    world = ReplayWorld(b"".join(read_lines(path, MAX_BYTES, MAX_LINE_BYTES)))
    header = world.header
    if header is None:
        raise BadArgument(f"{path} does not say what was recorded", hint="record it again")
    program = _program(header, given)
    shown: list[str] = []
    if taped.digest(program) != header.sha256:
        shown.append(f"note: {program} is not the program that was recorded")
    name, environ = header.device, taped.choices(header.environ, header.device)
    try:
        status = taped.run_on(
            name, lambda: open_device(name, world=world, environ=environ),
            program, header.arguments, sys.stderr,
        )  # fmt: skip
        world.finish()
    except ReplayMismatch:
        status = 1
    if status:
        shown.append(f"note: the program ended with status {status}")
    shown += world.differences[:_MOST_SHOWN]
    if world.differ > _MOST_SHOWN:
        shown.append(f"... and {world.differ - _MOST_SHOWN} more")
    shown.append(f"{world.count} operations of {header.program}: {world.differ} differences")
    return shown, world.differ


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
    try:
        if is_recording(args.file):
            shown, differ = play_recording(args.file, args.program)
        else:
            shown, differ = _traced(args)
    except (DeviceError, OSError, ValueError) as error:
        print(f"drivers.replay: {error}", file=sys.stderr)
        return 2
    return print_lines(shown) or int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
