"""Run an outside client against the boards: `python -m tests.witness hip [--chip gfx1100]`.

Exit status 0: everything was right; 1: something was not; 77: this machine lacks a requirement.
"""

from __future__ import annotations

import argparse
import fcntl
import sys
import time
from collections import Counter
from collections.abc import Iterable

from tests.debian import CannotRun
from tests.witness import hip, matrix, rocr, rocrand
from tests.witness.expected import explained
from tests.witness.record import Report
from tests.witness.roots import cache_folder
from unbound import terminal

DONE, FAILED, NOT_HERE = 0, 1, 77


def main() -> int:
    """The whole run."""
    parser = argparse.ArgumentParser(prog="python -m tests.witness", description=__doc__)
    parser.add_argument("client", choices=tuple(CLIENTS))
    parser.add_argument("--chip", action="append", metavar="CHIP", help="one of them; again: more")
    parser.add_argument("--refresh", action="store_true", help="fetch the packages again")
    arguments = parser.parse_args()
    known, one = CLIENTS[arguments.client]
    chips, began = arguments.chip or known, time.monotonic()
    if unknown := set(chips) - set(known):
        parser.error(f"no {', '.join(unknown)}: {arguments.client} runs on {', '.join(known)}")
    wrong = 0
    cache_folder().mkdir(parents=True, exist_ok=True)
    lock = (cache_folder() / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)  # one run at a time; it goes with the process
    try:
        for chip in chips:
            wrong += one(chip, arguments.refresh)
    except CannotRun as error:
        print(f"witness: not run: {error}", file=sys.stderr)
        return NOT_HERE
    print(f"witness: {len(chips)} chips in {time.monotonic() - began:.0f} s, {wrong} runs wrong")
    return FAILED if wrong else DONE


def _rocr(chip: str, refresh: bool) -> int:
    """Everything of one chip; how many runs were wrong. Raises: CannotRun."""
    client = rocr.prepare(chip, refresh=refresh)
    print(f"\n{client.words}", flush=True)
    wrong, reports = _print_results(rocr.results(client))
    for row in matrix.rows(client):
        wrong += bool(row.wrong)
        reports.append(row.report)
        print(f"  {row}", flush=True)
    _print_requests(reports)
    return wrong


def _hip(chip: str, refresh: bool) -> int:
    """Everything of one chip; how many runs were wrong. Raises: CannotRun."""
    client = hip.prepare(chip, refresh=refresh)
    return _whole(client.words, hip.results(client))


def _rocrand(chip: str, refresh: bool) -> int:
    """Everything of one chip; how many runs were wrong. Raises: CannotRun."""
    client = rocrand.prepare(chip, refresh=refresh)
    return _whole(client.words, rocrand.results(client))


def _whole(words: str, results: Iterable[rocr.Result]) -> int:
    print(f"\n{words}", flush=True)
    wrong, reports = _print_results(results)
    _print_requests(reports)
    return wrong


CLIENTS = {
    "rocr": (list(rocr.SUITES), _rocr),
    "hip": (list(hip.CHIPS), _hip),
    "rocrand": (list(rocrand.CHIPS), _rocrand),
}
"""For each client the chips, and what runs it on one."""


def _print_results(results: Iterable[rocr.Result]) -> tuple[int, list[Report]]:
    """How many are wrong, and what the board said of each."""
    wrong, reports = 0, []
    for result in results:
        wrong += bool(result.wrong)
        reports.append(result.run.report)
        print(f"  {result}", flush=True)
    return wrong, reports


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
