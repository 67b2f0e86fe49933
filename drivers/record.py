"""`python -m drivers.record PROGRAM`: record what a program does to a GPU, for one who has none.

Over a kernel driver (KFD, NVK, KGSL, msm) every ioctl, file, mapping and doorbell is taped, and
what driver and GPU write to shared memory; over PCI (AMD_IFACE=PCI) every access of a register.
See docs/recording.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from gzip import GzipFile
from io import FileIO, TextIOWrapper
from pathlib import Path
from typing import Any, Final

from drivers import taped_program as taped
from drivers.base.contracts import Device, World
from drivers.base.errors import DeviceError, MalformedInput, NotFound, Unsupported
from drivers.base.outside_json import elements
from drivers.choice import choose
from drivers.kinds import BY_NAME, named
from drivers.machine.output import print_text
from drivers.registry import open_device, this_machine
from drivers.world.owned import new_file
from drivers.world.recording import Header
from drivers.world.recording_text import MAX_ELEMENTS, check_line
from drivers.world.replay import RecordingWorld
from drivers.world.scrub import Scrubber
from unbound import terminal

_PCI: Final = "PCI"
_PACKED: Final = ".gz"
OUTPUTS: Final = {"": "recording.jsonl.gz", _PCI: "trace.jsonl"}
"""Where recordings go when nobody says where: over a kernel driver, and over PCI."""


def _parser() -> argparse.ArgumentParser:
    from drivers.board_option import add_board_option

    parser = argparse.ArgumentParser(
        prog="python -m drivers.record", description=(__doc__ or "").partition("\n")[0]
    )
    names = ", ".join(OUTPUTS.values())
    parser.add_argument("-o", "--output", metavar="FILE", help=f"instead of {names}")
    add_board_option(parser)
    parser.add_argument("program", type=Path, metavar="PROGRAM")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...")
    return parser


def _text_file(path: str) -> TextIOWrapper:
    """An empty file of this user, packed where its name says so. Raises: as `new_file`."""
    raw = new_file(path)
    if not path.endswith(_PACKED):
        return TextIOWrapper(raw, encoding="ascii")
    packed: Any = GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)
    return _Packed(packed, raw)


class _Packed(TextIOWrapper):
    """Text that gzip packs; its head has no name and no time of this machine."""

    def __init__(self, packed: Any, raw: FileIO) -> None:
        super().__init__(packed, encoding="ascii")
        self._raw = raw

    def close(self) -> None:
        """Write what is left. A second close does nothing."""
        super().close()
        self._raw.close()


class Output:
    """A recording's file, which is made when there is a device: without one, nothing is written.

    A device that is there and cannot be opened is worth sending, too.
    """

    def __init__(self, path: str, head: str) -> None:
        self.path, self.wrong = path, ""
        """`wrong`: why no replay takes the file."""
        self._kept = [head]
        self._file: TextIOWrapper | None = None
        self._lines = self._nbytes = 0
        self._check(head)

    def line(self, text: str) -> None:
        """One operation."""
        self._check(text)
        if self._file is None:
            self._kept.append(text)
        else:
            self._file.write(text)

    def _check(self, text: str) -> None:
        self._lines += 1
        self._nbytes += len(text)
        try:
            check_line(text.encode(), self._lines, self._nbytes)
        except MalformedInput as error:
            self.wrong = self.wrong or error.message
        if elements(text.encode()) > MAX_ELEMENTS:
            self.wrong = self.wrong or f"line {self._lines} has more than {MAX_ELEMENTS} elements"

    def opened(self, opening: Callable[[], Device]) -> Device:
        """Open the device, and the file. Raises: what the device does; as `new_file`."""
        try:
            device = opening()
        except NotFound:
            raise
        except DeviceError:
            self._begin()
            raise
        try:
            self._begin()
        except DeviceError:
            device.close()
            raise
        return device

    def _begin(self) -> None:
        self._file = _text_file(self.path)
        self._file.writelines(self._kept)
        self._kept.clear()

    def close(self) -> bool:
        """Write what is left; whether there is a file."""
        if self._file is not None:
            self._file.close()
        return self._file is not None


def record_kernel(
    world: World, environ: Mapping[str, str], program: Path, arguments: Sequence[str], path: str
) -> int:
    """Run a program on a device of `world` and write what it did to a file; its exit status.

    Raises: DeviceError of the device; the file is complete up to there.
    """
    name = taped.device_name(environ)
    chosen = taped.choices(environ, name)
    scrubber = Scrubber()
    shown = [str(scrubber.text(text.encode()), "utf-8") for text in arguments]
    header = Header(name, program.name, taped.digest(program), tuple(shown), chosen)
    output = Output(path, header.line())
    known = BY_NAME[name.partition(":")[0]].identifiers
    recorded = RecordingWorld(world, output.line, scrubber, named(known)() if known else None)

    def opening() -> Device:
        return open_device(name, world=recorded, environ=chosen)

    try:
        status = taped.run_on(
            name, lambda: output.opened(opening), program, arguments, sys.stderr
        )  # fmt: skip
    finally:
        if output.close():
            print_text(f"{path}: {recorded.count} operations, {os.path.getsize(path)} bytes")
    if output.wrong:
        print(f"drivers.record: no replay takes {path}: {output.wrong}. Record a smaller program",
              file=sys.stderr)  # fmt: skip
        return status or 1
    return status


def record_pci(
    name: str, opened: Callable[[], Device], program: Path, arguments: Sequence[str], path: str
) -> int:
    """Run a program on a device whose registers are traced; its exit status."""
    status = taped.run_on(name, opened, program, arguments, sys.stderr)
    print_text(f"{path}: {os.path.getsize(path)} bytes of register accesses")
    return status


def _record(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from drivers.board_option import device_of, in_front_of

    if args.board:  # which has one kind of GPU
        environ = taped.choosing(device_of(args.board), environ)
    name = taped.device_name(environ)
    if name.partition(":")[0] == "CPU":
        raise Unsupported("the CPU runs no driver to record", hint="set DEV=AMD")
    iface = choose(environ, name).iface
    path = args.output or OUTPUTS[_PCI if iface == _PCI else ""]
    program, arguments = args.program, args.arguments
    if iface != _PCI:
        world = this_machine()
        if args.board:
            world, environ = _kernel_board(args.board, name, iface or "", environ)
        return record_kernel(world, environ, program, arguments, path)
    if args.board:
        front = in_front_of(args.board, _PCI, os.path.abspath(path))
        return record_pci(name, front.open, program, arguments, path)
    trace = f"{name.partition(':')[0]}_TRACE"
    traced = {**environ, trace: os.path.abspath(path)}
    return record_pci(name, lambda: open_device(name, environ=traced), program, arguments, path)


def _kernel_board(
    chip: str, name: str, iface: str, environ: Mapping[str, str]
) -> tuple[World, Mapping[str, str]]:
    """A board's machine, and what a user would have set there, the own choices first."""
    from drivers.board_option import in_front_of

    front: Any = in_front_of(chip, iface)
    own = taped.choices(environ, name)
    compilers = {variable for variable in front.environ if variable not in ("DEV", *own)}
    if choose({"DEV": name, **own}).compiler is None:
        own |= {variable: front.environ[variable] for variable in compilers}
    return front.world, {"DEV": name, **own}


def main(argv: Sequence[str] | None = None) -> int:
    """The command line: the program's exit status, 2 where nothing could be recorded."""
    args = _parser().parse_args(argv)
    try:
        return _record(args, os.environ)
    except DeviceError as error:
        print(f"drivers.record: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    terminal.run(main)
