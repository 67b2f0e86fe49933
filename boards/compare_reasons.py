"""Differences between two clients' boots that somebody has looked at: each with reason and source.

A file has tables

    [[difference]]
    kind = "value"                      "value", "first", "second", "phase first", "phase second",
                                        "order"
    chips = ["gfx1100"]                 left out: every chip
    names = ["GC[*].CP_HQD_PQ_BASE*"]   registers or phases; * is any text
    reason = "..."
    source = "..."

"first" and "second" are what only the first or second client has. A "value" may have `values`,
the last values of both: then another pair is a new difference. Without, any pair is meant, which
is for addresses and what depends on the moment. And

    [[alias]]
    chips = ["gfx942"]
    second = "(1.0.1)"                  what the second client calls so
    first = "(1.0.0)"                   is compared with what the first one calls so
    reason = "..."
    source = "..."
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

KINDS = ("value", "first", "second", "phase first", "phase second", "order")


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not alike in two traces."""

    kind: str
    name: str
    values: tuple[int, int] | None = None

    def __str__(self) -> str:
        if self.values is None:
            return f"{self.kind}: {self.name}"
        return f"{self.kind}: {self.name}: {self.values[0]:#x} and {self.values[1]:#x}"


@dataclass(frozen=True)
class Reason:
    """Why some of them are."""

    kind: str
    names: tuple[str, ...]
    reason: str
    source: str
    chips: tuple[str, ...] = ()
    values: tuple[int, int] | None = None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(re.escape(name).replace(r"\*", ".*") for name in self.names))

    def here(self, chip: str) -> bool:
        """Whether it is about a chip."""
        return not self.chips or chip in self.chips

    def explains(self, difference: Difference) -> bool:
        """Whether it is about a difference."""
        if self.kind != difference.kind or not self._pattern.fullmatch(difference.name):
            return False
        return self.values in (None, difference.values)


@dataclass(slots=True)
class Reasons:
    """A file of them for one chip, and which were needed."""

    all: list[Reason] = field(default_factory=list)
    aliases: list[tuple[str, str]] = field(default_factory=list)
    """(name of the second client, name of the first)."""
    used: set[int] = field(default_factory=set)

    def new(self, differences: Iterable[Difference]) -> list[Difference]:
        """Those that no reason explains."""
        left = []
        for difference in differences:
            found = [at for at, reason in enumerate(self.all) if reason.explains(difference)]
            self.used.update(found)
            if not found:
                left.append(difference)
        return left

    def stale(self) -> list[Reason]:
        """Reasons for nothing that is there: to be taken out of the file."""
        return [reason for at, reason in enumerate(self.all) if at not in self.used]


def load(text: str, chip: str) -> Reasons:
    """Raises: ValueError for a file that has not the form above."""
    try:
        tables = tomllib.loads(text)
        found = [_reason(table) for table in tables.get("difference", [])]
        aliases = [_alias(table) for table in tables.get("alias", [])]
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not a file of differences: {error}") from error
    here = [reason for reason in found if reason.here(chip)]
    return Reasons(here, [pair for chips, pair in aliases if not chips or chip in chips])


def _chips(table: Mapping[str, object]) -> tuple[str, ...]:
    chips = table.get("chips", [])
    if not isinstance(chips, list):
        raise ValueError(f"chips {chips!r}")
    for key in ("reason", "source"):
        if not isinstance(table.get(key), str) or not table[key]:
            raise ValueError(f"no {key} for {table}")
    return tuple(map(str, chips))


def _alias(table: Mapping[str, object]) -> tuple[tuple[str, ...], tuple[str, str]]:
    """Raises: KeyError, ValueError."""
    return _chips(table), (str(table["second"]), str(table["first"]))


def _reason(table: Mapping[str, object]) -> Reason:
    """Raises: ValueError."""
    kind, names, values = (table.get(key) for key in ("kind", "names", "values"))
    if kind not in KINDS or not isinstance(names, list) or not names:
        raise ValueError(f"a difference with kind {kind!r} and names {names!r}")
    pair = None
    if values is not None:
        if not isinstance(values, list) or len(values) != 2 or kind != "value":
            raise ValueError(f"values {values!r} of {names}")
        pair = (int(values[0]), int(values[1]))
    chips, patterns = _chips(table), tuple(map(str, names))
    return Reason(str(kind), patterns, str(table["reason"]), str(table["source"]), chips, pair)
