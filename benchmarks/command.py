"""What a device does through this stack, each row beside a reference measured in the same run.

One thread on both sides unless --threads says otherwise (numpy's alone beside a GPU); medians of
interleaved pairs; a ratio above 1 always means that we are better. A row whose result is wrong is
not timed: it shows ERROR, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from unbound import terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.context import Context
    from benchmarks.measure import Result

FULL_BUDGET_S, QUICK_BUDGET_S = 4.0, 0.4
THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
    "CPU_THREADS",
)  # fmt: skip
WAYS = ("launch", "replay", "eager_tiny")
WAY = (
    f"{', '.join(WAYS)}: a small kernel's whole way to the device, beside a call of numpy, which "
    "has none"
)
HEADER = f"{'row':<18}{'value':>11} {'unit':<9}{'ratio':>7}{'reference':>12}  beside"


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog=terminal.name(), description=__doc__)
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="as DEV names it; else the default: the best GPU of a kernel driver, or the CPU",
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the rows to FILE")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: under 40 s")
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        default=[],
        help="only this row (patterns such as 'matmul*' too); may be repeated",
    )
    parser.add_argument(
        "--plot",
        metavar="FILE.png",
        type=Path,
        help="draw the device's roofline with its kernels on it (matplotlib)",
    )
    parser.add_argument(
        "--threads", type=int, default=1, metavar="N", help="threads on both sides (default 1)"
    )
    parser.add_argument(
        "--blas-core",
        metavar="NAME",
        help="OPENBLAS_CORETYPE for numpy's OpenBLAS (default: it chooses for the processor)",
    )
    parser.add_argument("--list", action="store_true", help="print the row names and stop")
    _board_options(parser)
    args = parser.parse_args(argv)
    if args.threads < 1:
        parser.error("--threads must be at least 1")
    return args


def _board_options(parser: argparse.ArgumentParser) -> None:
    """What runs in front of a software GPU instead of a device of this machine."""
    group = parser.add_argument_group("software GPUs")
    group.add_argument("--board", metavar="CHIP", help='results and times on a board ("gfx1100")')
    group.add_argument(
        "--goals", action="store_true",
        help="exit status 1 for a missed goal, too: processor time, for developers of this stack",
    )  # fmt: skip
    group.add_argument(
        "--host-cost",
        action="store_true",
        help="what a launch costs the host: a driver on rings that are plain memory",
    )
    queues = group.add_mutually_exclusive_group()
    queues.add_argument("--aql", dest="aql", action="store_true", default=None)
    queues.add_argument("--pm4", dest="aql", action="store_false")
    group.add_argument("--compiler", choices=("LLVM", "HIP", "NVRTC", "PTX", "IR3"), default="",
                       help="of the board's vendor (default: its first)")  # fmt: skip
    parser.add_argument(
        "--trace", metavar="FILE", type=Path,
        help="of a GPU over PCI: write every register access to FILE, by name",
    )  # fmt: skip


def pin_settings(threads: int, device: str | None, blas_core: str | None) -> str:
    """Settings that numpy, torch and our own CPU device read once, when they are imported.

    The reference is numpy at its best: an inherited OPENBLAS_CORETYPE, which can hold OpenBLAS to
    older instructions than the processor has, is set aside. Returns the note for the user.
    """
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(threads)
    inherited = os.environ.pop("OPENBLAS_CORETYPE", "")
    if blas_core:
        os.environ["OPENBLAS_CORETYPE"] = blas_core
    if device:
        os.environ["DEV"] = device
    if inherited and not blas_core:
        return f"OPENBLAS_CORETYPE={inherited} is set aside; --blas-core {inherited} keeps it"
    return ""


def line(result: Result) -> str:
    """One row of the table."""
    if result.skipped:
        return f"{result.name:<18}{'skipped':>11} {result.skipped}"
    if result.value is None or result.reference_value is None or result.ratio is None:
        return f"{result.name:<18}{'ERROR':>11} {result.error}"
    text = (
        f"{result.name:<18}{result.value:>11.4g} {result.unit:<9}{result.ratio:>7.2f}"
        f"{result.reference_value:>12.4g}  {result.reference}"
    )
    if result.torch_value is not None:
        text += f"; torch {result.torch_value:.4g} (ratio {result.torch_ratio:.2f})"
    return text


def heading(context: Context) -> list[str]:
    """What is measured, why it is that device, and how to measure another."""
    device, threads = context.device, context.threads
    sides = "on both sides" if device.name.startswith("CPU") else "of numpy beside the whole GPU"
    lines = [f"{device.name}, {device.arch}, {threads} thread(s) {sides}; ratio > 1: we are better"]
    if context.device_name:
        return lines
    default = context.default
    lines.append(f"the default device: {default.why}; --device NAME measures another")
    return lines + ([f"not {default.reasons}"] if default.passed else [])


def progress(text: str) -> None:
    """What is being measured now, on a terminal only; an empty text takes it away."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def run(names: Sequence[str], context: object, budget_s: float) -> list[Result]:
    """Measure the rows one after the other, printing each as soon as it is there."""
    from benchmarks.context import Context
    from benchmarks.rows import run_row

    if not isinstance(context, Context):
        raise TypeError("run() takes a benchmarks.context.Context")
    print(HEADER, flush=True)
    results = []
    for number, name in enumerate(names, 1):
        progress(f"[{number:2}/{len(names)}] {name} ...")
        result = run_row(name, context, budget_s)
        progress("")
        if result is not None:
            results.append(result)
            print(line(result), flush=True)
    return results


def report(device: str, arch: str, results: Sequence[Result]) -> dict[str, object]:
    """What --json writes."""
    return {"device": device, "arch": arch, "rows": [result.row() for result in results]}


def save(args: argparse.Namespace, context: object, results: Sequence[Result]) -> None:
    """Write what --json and --plot name. Raises: BadArgument, Denied for no file of ours."""
    from benchmarks.context import Context
    from drivers.world.owned import write_text

    if not isinstance(context, Context):
        raise TypeError("save() takes a benchmarks.context.Context")
    if args.json:
        facts = report(context.device.name, context.device.arch, results)
        write_text(str(args.json), json.dumps(facts, indent=1) + "\n")
    if args.plot:
        from benchmarks.plot import roofline

        print(roofline(args.plot, context, results))


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 when a row failed, 2 when the question was wrong."""
    args = parse(sys.argv[1:] if argv is None else argv)
    note = pin_settings(args.threads, args.device, args.blas_core)
    if args.trace:
        from drivers.kinds import BEST_FIRST

        for kind in BEST_FIRST:
            os.environ.pop(kind.older.get("UNBOUND_REGISTER_TRACE", ""), None)
        os.environ["UNBOUND_REGISTER_TRACE"] = str(args.trace.absolute())
    from benchmarks.context import Context
    from benchmarks.rows import ROWS
    from benchmarks.selection import select
    from drivers.base.errors import DeviceError

    if args.board or args.host_cost:
        from benchmarks.board_command import command

        return command(args)
    if args.list:
        print("\n".join(ROWS))
        return 0
    start_s = time.perf_counter()
    context = Context(args.device, args.threads)
    try:
        names = select(list(ROWS), args.only)
        print("\n".join(heading(context)))
    except (ValueError, DeviceError) as error:
        print(f"{terminal.name()}: {error}", file=sys.stderr)
        return 2
    if note:
        print(note)
    results = run(names, context, QUICK_BUDGET_S if args.quick else FULL_BUDGET_S)
    if any(result.name.startswith(WAYS) for result in results):
        print(WAY)
    try:
        save(args, context, results)
    except DeviceError as error:
        print(f"{terminal.name()}: {error}", file=sys.stderr)
        return 2
    failed = [result.name for result in results if result.error]
    skipped = [result.name for result in results if result.skipped]
    measured = len(results) - len(failed) - len(skipped)
    print(
        f"{measured} rows measured in {time.perf_counter() - start_s:.0f} s"
        + (f"; failed: {', '.join(failed)}" if failed else "")
        + (f"; skipped: {', '.join(skipped)}" if skipped else "")
    )
    return 1 if failed else 0
