"""What an outside client is known to do against a board's rules: committed, with reason and source.

A file has tables

    [[violation]]
    kind = "HDP flush under way"        the violation's kind, whole
    what = "PSP bootloader: *"          its place, as fnmatch writes patterns
    chips = ["gfx1100"]                 left out: every chip
    reason = "..."
    source = "..."
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from boards.machine.chassis import Violation


@dataclass(frozen=True, slots=True)
class Known:
    """A violation that is the client's own."""

    kind: str
    what: str
    reason: str
    source: str
    chips: tuple[str, ...] = ()

    def fits(self, violation: Violation, chip: str) -> bool:
        """Whether this is the one."""
        here = not self.chips or chip in self.chips
        return here and self.kind == violation.kind and fnmatchcase(violation.what, self.what)


@dataclass(slots=True)
class Expected:
    """A file of them, and which have been seen."""

    known: tuple[Known, ...]
    seen: set[Known] = field(default_factory=set)

    def new(self, violations: Iterable[Violation], chip: str) -> list[Violation]:
        """Those that nobody has explained."""
        left = []
        for violation in violations:
            fits = [known for known in self.known if known.fits(violation, chip)]
            self.seen.update(fits)
            if not fits:
                left.append(violation)
        return left

    def stale(self, chips: Iterable[str]) -> list[Known]:
        """Those that no run on these chips has shown: to be taken out of the file."""
        ran = set(chips)
        return [
            known
            for known in self.known
            if known not in self.seen and (not known.chips or ran & set(known.chips))
        ]


def load(path: Path) -> Expected:
    """Raises: TypeError, KeyError for a table with other keys, or without reason and source."""
    tables = tomllib.loads(path.read_text())["violation"]
    known = tuple(Known(**{**table, "chips": tuple(table.get("chips", ()))}) for table in tables)
    return Expected(known)
