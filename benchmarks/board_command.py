"""`bench.py --board CHIP` and `bench.py --host-cost`: the command around their tables."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import replace

from benchmarks import board, host_cost
from benchmarks.selection import select
from boards.asked import check_options
from boards.front import tuning_of
from boards.run import set_environ
from boards.setup import Setup
from boards.vendors import compiler_of, over, vendor_of
from drivers.base.errors import DeviceError
from drivers.choice import choose
from drivers.world.owned import write_text
from unbound import terminal

DEFAULT_CHIP = "gfx1100"


def command(args: argparse.Namespace) -> int:
    """Print the table; 1 when a row is wrong, or a goal of --goals; 2: the question was."""
    try:
        setup = _setup(args)
        return _host_cost(args, setup) if args.host_cost else _board(args, setup)
    except (ValueError, DeviceError) as error:
        print(f"{terminal.name()}: {error}", file=sys.stderr)
        return 2


def _setup(args: argparse.Namespace) -> Setup:
    """The board, with the interface that the user's environment names. Raises: BadChoice."""
    chip = args.board or DEFAULT_CHIP
    vendor = vendor_of(chip)
    check_options(chip, compiler=args.compiler, aql=args.aql)
    device = vendor.device
    kept = (f"{device}_", "UNBOUND_")
    own = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    choice = choose({**own, "DEV": device})
    return Setup(
        chip,
        aql=args.aql,
        compiler=args.compiler or vendor.compilers[0],
        iface=choice.iface or "",
        dma=choice.dma or "",
        trace=choice.trace or "",
        tuning=tuning_of(chip, os.environ),
    )


def _host_cost(args: argparse.Namespace, setup: Setup) -> int:
    both = setup.aql is None and vendor_of(setup.chip).aql
    kinds = (False, True) if both else (setup.aql,)
    costs = [cost for aql in kinds for cost in host_cost.measure(replace(setup, aql=aql))]
    print(host_cost.table(setup, costs))
    if args.json:
        write_text(str(args.json), json.dumps(host_cost.report(setup, costs), indent=1) + "\n")
    return int(args.goals and not all(cost.met for cost in costs))


def _board(args: argparse.Namespace, setup: Setup) -> int:
    names = select(list(board.NAMES), args.only)
    if args.list:
        print("\n".join(names))
        return 0
    set_environ(setup, os.environ)
    start_s = time.perf_counter()
    queue = {None: "its own kind of queue", True: "AQL", False: "PM4"}[setup.aql]
    print(f"{setup.chip}{over(setup)}, {queue}, {compiler_of(setup)}: {board.NOTE}")
    print(board.HEADER, flush=True)
    results, violations = board.run(setup, names, lambda line: print(line, flush=True))
    for violation in violations:
        print(f"violation: {violation}")
    if args.json:
        facts = board.report(setup, results, violations)
        write_text(str(args.json), json.dumps(facts, indent=1) + "\n")
    wrong = [result.name for result in results if result.failed]
    slow = [result.name for result in results if result.missed]
    print(
        f"{len(results)} rows in {time.perf_counter() - start_s:.0f} s"
        + (f"; wrong: {', '.join(wrong)}" if wrong else "")
        + (f"; goals missed: {', '.join(slow)}" if slow else "")
    )
    return int(bool(wrong or violations or (args.goals and slow)))
