"""What was tried, in a file that grows while the sweep runs, and as a table."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Final

from boards.machine.pci.panel import Kind
from tests.sweep.attempt import Outcome
from tests.sweep.places import KINDS, Place, Plan

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ("boards", "compilers", "drivers", "queues", "tests/sweep", "tests/reliability")
Key = tuple[str, str, int]
"""Place, kind, access."""


def identity() -> str:
    """Of the code that is tried: results of other code are not continued."""
    digest = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".txt", ".json"):
                digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


class Results:
    """One line for each try: place, kind, then the outcome."""

    def __init__(self, path: Path) -> None:
        self.found: dict[Key, Outcome] = {}
        self._path, self._head = path, f"# {identity()}"
        self._load()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a" if self.found else "w", encoding="utf-8")
        if not self.found:
            self._file.write(f"{self._head}\n")

    def _load(self) -> None:
        """What an earlier run of the same code has tried; a last line may be cut short."""
        lines = self._path.read_text("utf-8").split("\n")[:-1] if self._path.exists() else []
        if lines[:1] != [self._head]:
            return
        for line in lines[1:]:
            place, kind, at, *rest = line.split("\t")
            self.found[place, kind, int(at)] = Outcome(int(at), *rest)

    def add(self, place: Place, kind: Kind, outcomes: Iterable[Outcome]) -> None:
        """Keep what came of some tries."""
        for one in outcomes:
            self.found[str(place), kind.value, one.at] = one
            words = (str(field).translate(_ONE_LINE) for field in astuple(one))
            self._file.write("\t".join((str(place), kind.value, *words)) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Everything is on disk."""
        self._file.close()


_ONE_LINE: Final = {ord(mark): " " for mark in "\t\n\r"}


def table(found: Mapping[Key, Outcome], plans: Mapping[Place, Plan]) -> str:
    """A row for each place: accesses, tries of each kind, errors named, silent ones, problems."""
    head = f"{'chip and grade':<16} {'accesses':>8} {'tries':>7} {'of':>7} " + " ".join(
        f"{kind.value:>8}" for kind in KINDS
    )
    rows = [f"{head} {'no error':>9} {'problems':>9}"]
    for place, plan in plans.items():
        whole = sum(len(plan.ats(kind)) for kind in KINDS)
        ours = [(key, one) for key, one in found.items() if key[0] == str(place)]
        errors = Counter(kind for (_, kind, _), one in ours if one.error)
        counts = " ".join(f"{errors[kind.value]:>8}" for kind in KINDS)
        bad = sum(bool(one.problem) for _, one in ours)
        silent = len(ours) - errors.total()
        rows.append(
            f"{place!s:<16} {len(plan.log):>8} {len(ours):>7} {whole:>7} {counts} "
            f"{silent:>9} {bad:>9}"
        )
    rows.append("(under a kind: how many of its tries ended in an error, step and register named)")
    return "\n".join(rows)


def problems(found: Mapping[Key, Outcome]) -> Sequence[str]:
    """Every try with which something is wrong."""
    return [
        f"{place}, {kind} at {at} ({one.access}): {one.problem}"
        for (place, kind, at), one in found.items()
        if one.problem
    ]
