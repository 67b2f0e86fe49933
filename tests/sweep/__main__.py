"""`make sweep`: every access of a GPU's life to its bus goes wrong, in every way, on every board.

python -m tests.sweep                          # all of it; continues where it was stopped
python -m tests.sweep --jobs 2 --chip gfx942   # less of it
python -m tests.sweep --shard 1/7              # the first of seven parts
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Final

from boards.machine.pci.panel import Kind
from tests.sweep.places import CHIPS, GRADES, KINDS, PLACES, Place, Plan
from tests.sweep.results import ROOT, Results, problems, table
from tests.sweep.task import Task, work
from unbound import terminal

AT_ONCE: Final = 40
"""Tries of one task: a few seconds."""
BATCH: Final = 200
"""Tasks between which the processes are exchanged."""
SHOWN: Final = 40


def options(words: Sequence[str]) -> argparse.Namespace:
    """Raises: SystemExit."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.sweep",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    jobs = os.cpu_count() or 1
    parser.add_argument("--jobs", type=int, default=jobs, help="processes (%(default)s)")
    parser.add_argument("--chip", action="append", choices=CHIPS, help="default: all three")
    parser.add_argument("--grade", action="append", choices=GRADES, help="of DMA; default: both")
    parser.add_argument("--kind", action="append", choices=KINDS, type=Kind, help="default: all")
    parser.add_argument("--shard", default="1/1", help="I/N: the I-th of N parts")
    out = ROOT / ".sweep" / "results.tsv"
    parser.add_argument("--out", type=Path, default=out, help="results; default: %(default)s")
    return parser.parse_args(words)


def shard_of(text: str) -> tuple[int, int]:
    """(first, step) of a part, counted from 0. Raises: SystemExit."""
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        sys.exit(f"--shard {text}: I/N, with I from 1 to N")
    return int(part) - 1, int(parts)


def tasks_of(
    place: Place, kind: Kind, plan: Plan, done: Results, shard: tuple[int, int]
) -> list[Task]:
    """What is still to be tried of one place in one way."""
    first, parts = shard
    ats = plan.ats(kind)[first::parts]
    todo = [at for at in ats if (str(place), kind.value, at) not in done.found]
    return [
        Task(place, kind, plan.closing, tuple(todo[at : at + AT_ONCE]))
        for at in range(0, len(todo), AT_ONCE)
    ]


def sweep(tasks: Sequence[Task], jobs: int, results: Results) -> None:
    """Do the tasks, and say how far they are. Processes are new for every batch: boards add up."""
    begun_s, done, whole = time.monotonic(), 0, sum(len(task.ats) for task in tasks)
    for first in range(0, len(tasks), BATCH):
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
            batch = {pool.submit(work, task): task for task in tasks[first : first + BATCH]}
            for future in as_completed(batch):
                task = batch[future]
                results.add(task.place, task.kind, future.result())
                done += len(task.ats)
                left_s = (time.monotonic() - begun_s) / done * (whole - done)
                bad = len(problems(results.found))
                print(f"\r{done} of {whole} tries, {left_s:.0f} s left, {bad} problems ", end="")
                sys.stdout.flush()
    print()


def main(words: Sequence[str]) -> int:
    """Returns: the exit status, 1 when a try had a problem."""
    chosen = options(words)
    shard = shard_of(chosen.shard)
    places = [
        place
        for place in PLACES
        if place.chip in (chosen.chip or CHIPS) and place.grade in (chosen.grade or GRADES)
    ]
    kinds = chosen.kind or KINDS
    results = Results(chosen.out)
    plans = {place: place.plan() for place in places}
    tasks = [
        task
        for place in places
        for kind in kinds
        for task in tasks_of(place, kind, plans[place], results, shard)
    ]
    print(f"{len(results.found)} tries are in {chosen.out} already")
    try:
        sweep(tasks, chosen.jobs, results)
    finally:
        results.close()
        print(table(results.found, plans))
    bad = problems(results.found)
    for line in bad[:SHOWN]:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    terminal.run(main)
