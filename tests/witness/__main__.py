"""Run an outside client against the boards: `python -m tests.witness rocr [--chip gfx1100]`.

Exit status 0: everything was right; 1: something was not; 77: this machine lacks a requirement.
"""

from __future__ import annotations

import argparse
import fcntl
import sys
import time
from collections import Counter

from tests.debian import CannotRun
from tests.witness import matrix, rocr
from tests.witness.expected import explained
from tests.witness.record import Report
from tests.witness.roots import cache_folder
from unbound import terminal

DONE, FAILED, NOT_HERE = 0, 1, 77


def main() -> int:
    """The whole run."""
    parser = argparse.ArgumentParser(prog="python -m tests.witness", description=__doc__)
    parser.add_argument("client", choices=("rocr",))
    parser.add_argument("--chip", action="append", choices=tuple(rocr.SUITES))
    parser.add_argument("--refresh", action="store_true", help="fetch the packages again")
    arguments = parser.parse_args()
    chips, began = arguments.chip or list(rocr.SUITES), time.monotonic()
    wrong = 0
    cache_folder().mkdir(parents=True, exist_ok=True)
    lock = (cache_folder() / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)  # one run at a time; it goes with the process
    try:
        for chip in chips:
            wrong += _one(rocr.prepare(chip, refresh=arguments.refresh))
    except CannotRun as error:
        print(f"witness: not run: {error}", file=sys.stderr)
        return NOT_HERE
    print(f"witness: {len(chips)} chips in {time.monotonic() - began:.0f} s, {wrong} runs wrong")
    return FAILED if wrong else DONE


def _one(client: rocr.Client) -> int:
    """Everything of one chip; how many runs were wrong."""
    print(f"\n{client.words}", flush=True)
    wrong, reports = 0, []
    for result in rocr.results(client):
        wrong += bool(result.wrong)
        reports.append(result.run.report)
        print(f"  {result}", flush=True)
    for row in matrix.rows(client):
        wrong += bool(row.wrong)
        reports.append(row.report)
        print(f"  {row}", flush=True)
    _print_requests(reports)
    return wrong


def _print_requests(reports: list[Report]) -> None:
    """What the client asked for, what was refused, and what the board does not model."""
    ioctls: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    absent: Counter[str] = Counter()
    flags: set[str] = set()
    for report in reports:
        ioctls.update(report.ioctls)
        refused.update(report.refused)
        absent.update(report.absent_files)
        flags.update(report.flags)
    print("  asked: " + ", ".join(f"{name} {count}" for name, count in sorted(ioctls.items())))
    print("  flags of allocations: " + ", ".join(sorted(flags)))
    for text, count in sorted(refused.items()):
        known = explained("refused", text)
        print(f"  refused {count} times: {text}" + (f" ({known.reason})" if known else ""))
    for path, count in sorted(absent.items()):
        print(f"  not on a board, asked for {count} times: {path}")


if __name__ == "__main__":
    terminal.run(lambda _: main())
