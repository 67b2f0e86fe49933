"""`python -m boards`: the software GPUs there are; `run` and `trace` run a program on one.

python -m boards
python -m boards run gfx1100 examples/add.py
python -m boards trace gfx1201 examples/add.py -o trace.json
python -m boards vfio-user gfx1100 --socket gpu.sock
python -m boards usbredir gfx1100 --socket usb.sock
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from boards.asked import check_options, over_pci
from boards.vendors import VENDORS, Vendor, names, vendor_of
from unbound import terminal

_MIB = 1 << 20
_OPERANDS = "operands"


def table() -> str:
    """Every board: chip, family, compute units, what runs there."""
    lines = [f"{'board':<9}{'family':<11}{'CUs':>4}  queues and machine code"]
    for vendor in VENDORS:
        lines += [*map(vendor.describe, vendor.names), vendor.note]
    return "\n".join(lines)


def _kernels() -> str:
    """The releases there are, by interface."""
    known = [item for one in VENDORS for item in one.kernels.items()]
    return "; ".join(f"{iface}: {', '.join(releases)}" for iface, releases in known)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("board", choices=names(), metavar="BOARD", help=", ".join(names()))
    queues = parser.add_mutually_exclusive_group()
    queues.add_argument("--aql", dest="aql", action="store_true", default=None,
                        help="compute queues of AQL packets")  # fmt: skip
    queues.add_argument("--pm4", dest="aql", action="store_false", help="... of PM4 packets")
    compilers = list(dict.fromkeys(name for vendor in VENDORS for name in vendor.compilers))
    parser.add_argument("--compiler", choices=compilers, default="",
                        help="of the board's vendor (default: its first)")  # fmt: skip
    ifaces = list(dict.fromkeys(name for vendor in VENDORS for name in vendor.ifaces))
    parser.add_argument("--iface", choices=ifaces, default="", help="the interface")
    parser.add_argument("--dma", choices=("iommu", "vram"), default="",
                        help="with PCI: a machine with an IOMMU (default), or without")  # fmt: skip
    parser.add_argument("--kernel", default="", metavar="RELEASE", help="of the kernel driver "
                        f"whose rules the board follows: {_kernels()}")  # fmt: skip
    parser.add_argument("--trace", type=Path, metavar="FILE",
                        help="with PCI: every register access, by name")  # fmt: skip
    parser.add_argument("--gpus", type=int, default=1, metavar="N", help="devices 0 ... N-1")
    parser.add_argument("--vram-mib", type=int, default=1024, metavar="N", help="of each GPU")
    rules = parser.add_mutually_exclusive_group()
    rules.add_argument("--strict", dest="strict", action="store_true", default=True,
                       help="report what silicon would let pass (default)")  # fmt: skip
    rules.add_argument("--lenient", dest="strict", action="store_false",
                       help="only refuse what silicon refuses")  # fmt: skip
    parser.add_argument("program", type=Path)
    parser.add_argument(_OPERANDS, nargs=argparse.REMAINDER, metavar="...", help="its arguments")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m boards", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("list", help="the boards there are (the default)")
    _options(commands.add_parser("run", help="run a program with a board's GPU as default device"))
    traced = commands.add_parser("trace", help="the same, and write a timeline for Perfetto")
    traced.add_argument("-o", "--output", type=Path, default=Path("trace.json"), metavar="FILE")
    _options(traced)
    _served(commands.add_parser("vfio-user", help="a GPU on PCI, for a virtual machine"))
    _plugged(commands.add_parser("usbredir", help="a GPU on USB, for a virtual machine"))
    return parser.parse_args(_output_first(argv))


def _plugged(parser: argparse.ArgumentParser) -> None:
    _over_pci(parser, [vendor for vendor in VENDORS if vendor.enclosure])
    parser.add_argument("--socket", type=Path, required=True, metavar="PATH")
    parser.add_argument("--panel", type=Path, metavar="PATH",
                        help="a socket of lines: plug, unplug, unplug N, killed")  # fmt: skip
    parser.add_argument("--vram-mib", type=int, default=512, metavar="N")
    parser.add_argument("--once", action="store_true", help="end when the first client leaves")


def _over_pci(parser: argparse.ArgumentParser, vendors: Sequence[Vendor]) -> None:
    there = ", ".join(name for vendor in vendors for name in vendor.pci_names)
    parser.add_argument("board", type=_function, metavar="BOARD", help=there)


def _function(chip: str) -> str:
    try:
        return over_pci(chip)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _served(parser: argparse.ArgumentParser) -> None:
    _over_pci(parser, VENDORS)
    parser.add_argument("--socket", type=Path, required=True, metavar="PATH")
    parser.add_argument("--vram-mib", type=int, default=512, metavar="N")
    parser.add_argument("--journal", type=Path, metavar="FILE",
                        help="every register access, by name")  # fmt: skip
    parser.add_argument("--firmware", type=Path, metavar="FOLDER",
                        help="take the vendor's own files of a folder")  # fmt: skip
    parser.add_argument("--once", action="store_true", help="end when the first client leaves")
    parser.add_argument("--max-steps", type=int, default=0, metavar="N",
                        help="instructions of a wave after which it counts as endless")  # fmt: skip


def _output_first(argv: Sequence[str]) -> list[str]:
    """`trace BOARD program.py -o FILE` ends in our option, not in one of the program's."""
    given = list(argv)
    if given[:1] == ["trace"] and len(given) > 2 and given[-2] in ("-o", "--output"):
        return [given[0], *given[-2:], *given[1:-2]]
    return given


def main(argv: Sequence[str] | None = None) -> int:
    """List, run or trace; 1 when the program failed or the board found something."""
    args = parse(sys.argv[1:] if argv is None else argv)
    if args.command in (None, "list"):
        print(table())
        return 0
    if args.command == "vfio-user":
        return _serve(args)
    if args.command == "usbredir":
        return _serve_usb(args)
    return _run(args)


def _wrong(args: argparse.Namespace) -> str:
    """What is wrong with the command line of `run` and `trace`, or ""."""
    if not args.program.is_file():
        return f"there is no file {str(args.program)!r}"
    if args.gpus < 1 or args.vram_mib < 1:
        return "--gpus and --vram-mib are at least 1"
    try:
        check_options(
            args.board, aql=args.aql, compiler=args.compiler, iface=args.iface, dma=args.dma,
            trace=args.trace, kernel=args.kernel,
        )  # fmt: skip
    except ValueError as error:
        return f"board {args.board}: {error}"
    return ""


def _run(args: argparse.Namespace) -> int:
    wrong = _wrong(args)
    if wrong:
        print(wrong, file=sys.stderr)
        return 2
    from boards.front import tuning_of
    from boards.run import Setup, run, set_environ
    from drivers.base.errors import DeviceError

    compiler = args.compiler or vendor_of(args.board).compilers[0]
    setup = Setup(
        args.board, args.gpus, args.aql, compiler, args.strict, args.vram_mib * _MIB,
        args.iface, args.dma, trace=str(args.trace.absolute()) if args.trace else "",
        kernel=args.kernel, tuning=tuning_of(args.board, os.environ),
    )  # fmt: skip
    set_environ(setup, os.environ)
    trace = args.output if args.command == "trace" else None
    try:
        return run(setup, args.program, getattr(args, _OPERANDS), trace=trace)
    except (DeviceError, OSError) as error:
        print(f"board {args.board}: {error}", file=sys.stderr)
        return 1


def _serve(args: argparse.Namespace) -> int:
    from boards.vfio_user.command import serve

    if args.vram_mib < 1:
        print("--vram-mib is at least 1", file=sys.stderr)
        return 2
    try:
        vendor = vendor_of(args.board)
        made = vendor.function(args.board, args.vram_mib * _MIB, args.max_steps)
        if args.firmware is not None:
            vendor.take_firmware(made[1], args.firmware)
        return serve(
            args.board, args.socket, made, vendor.observe, once=args.once, journal=args.journal
        )
    except (OSError, ValueError) as error:
        print(f"board {args.board}: {args.socket}: {error}", file=sys.stderr)
        return 1


def _serve_usb(args: argparse.Namespace) -> int:
    from boards.usbredir.command import serve

    made = vendor_of(args.board).enclosure
    if args.vram_mib < 1 or made is None:
        print("--vram-mib is at least 1", file=sys.stderr)
        return 2
    try:
        enclosed = made(args.board, args.vram_mib * _MIB)
        return serve(args.board, args.socket, enclosed, panel=args.panel, once=args.once)
    except (OSError, ValueError) as error:
        print(f"board {args.board}: {args.socket}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    terminal.run(main)
