"""What a client of a software GPU did: every access by name, and what the board does not model.

A trace has one JSON object a line. The first names the board; then, in order,

    {"op": "R", "register": "MP0[0].MP0_SMN_C2PMSG_81", "value": 0}
    {"op": "W", "register": "GC[0].CP_HQD_ACTIVE", "value": 1}
    {"op": "P", "phase": "compute queue on"}
    {"op": "M", "mark": "booted"}
    {"op": "E", "event": "doorbell", "facts": {"queue": 1}}

Equal accesses in a row are two lines: the first, and one that has "times", how many more there
were. An event, of the board itself, explains the rest to a reader; comparisons pass it over.

`python -m boards.compare` reads two of them. Names of registers and phases are the board's,
whoever the client was; a mark is what somebody beside the client has set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

SPIN_READS = 5_000
"""Reads without any news before a client is said to spin: far more than a poll needs whose board
answers in milliseconds, and fewer than a driver makes before it gives up."""
_SPIN_PLACES = 4
"""A loop that waits reads this many places at most."""
HEAD = "board"
_LETTERS = {"read": "R", "write": "W"}
_INSTANCE = re.compile(r"(.*?)\[(\d+)\](.*)")


@dataclass(slots=True)
class Unmodelled:
    """Accesses to one place that has no meaning on this board."""

    op: str
    place: str
    count: int
    answered: int
    """What the first read gave, or what the last write lost."""

    def __str__(self) -> str:
        said = "answered" if self.op == "read" else "lost"
        return f"{self.op} {self.place}: {self.count} times, {said} {self.answered:#x}"


class Spin(Exception):
    """A client reads the same places over and over, and nothing changes."""


class AccessLog:
    """Listens to one function. `out`: where the trace goes, if anywhere."""

    def __init__(
        self, board: str, out: IO[str] | None = None, *, spin_reads: int = SPIN_READS
    ) -> None:
        self._out, self._spin_reads = out, spin_reads
        self.reads, self.writes = 0, 0
        self._missing: dict[tuple[str, str], Unmodelled] = {}
        self._seen: dict[str, int | bytes] = {}
        self._idle_reads = 0
        self._last: tuple[str, str, int] | None = None
        self.in_a_row = 0
        """How often the last access was made, with the same value and nothing in between."""
        self._line({HEAD: board})

    def _line(self, facts: Mapping[str, object]) -> None:
        if self._out is not None:
            self._out.write(json.dumps(facts) + "\n")

    def access(self, op: str, register: str, value: int) -> None:
        """A register was read or written."""
        if self._last == (op, register, value):
            self.in_a_row += 1
        else:
            self._settle()
            self._last, self.in_a_row = (op, register, value), 1
            self._line({"op": _LETTERS[op], "register": register, "value": value})
        if op == "write":
            self.writes += 1
            self.moved()
        else:
            self.reads += 1
            self.polled(register, value)

    def _settle(self) -> None:
        """The last access is not made again: say how often it was."""
        if self._last is not None and self.in_a_row > 1:
            op, register, value = self._last
            facts = {"op": _LETTERS[op], "register": register, "value": value}
            self._line({**facts, "times": self.in_a_row - 1})
        self._last, self.in_a_row = None, 0

    def event(self, name: str, facts: Mapping[str, int | str]) -> None:
        """Something that the board did."""
        self._settle()
        self._line({"op": "E", "event": name, "facts": facts})

    def phase(self, name: str) -> None:
        """A client has got somewhere, as its vendor's board sees it."""
        self._settle()
        self._line({"op": "P", "phase": name})

    def mark(self, name: str) -> None:
        """Somebody beside the client knows that it has got somewhere."""
        self._settle()
        self._line({"op": "M", "mark": name})

    def unset_read(self, register: str) -> None:
        """A read of a register that nothing has given a value: the answer is 0."""
        self.lacking("read", register, 0)

    def lacking(self, op: str, place: str, value: int) -> None:
        """An access that nothing on the board gives a meaning."""
        found = self._missing.setdefault((op, place), Unmodelled(op, place, 0, value))
        found.count += 1
        if op == "write":
            found.answered = value

    def not_modelled(self) -> list[Unmodelled]:
        """All of those, in the order of their first access."""
        return list(self._missing.values())

    def report(self) -> list[str]:
        """One line each; instances of a block that were touched alike share theirs."""
        groups: dict[tuple[str, int], list[str]] = {}
        for one in self._missing.values():
            parts = _INSTANCE.fullmatch(one.place)
            place = f"{parts[1]}[#]{parts[3]}" if parts else one.place
            key = str(Unmodelled(one.op, place, one.count, one.answered)), bool(parts)
            groups.setdefault(key, []).append(parts[2] if parts else "")
        return [
            line.replace("[#]", f"[{','.join(numbers)}]") if instances else line
            for (line, instances), numbers in groups.items()
        ]

    # A client that spins

    def moved(self) -> None:
        """Something happened: whoever waits may get what it waits for."""
        self._seen.clear()
        self._idle_reads = 0

    def polled(self, place: str, value: int | bytes) -> None:
        """A place was read: a register, or memory that the board reaches."""
        if self._seen.get(place) == value:
            self._idle_reads += 1
            return
        news = place in self._seen or len(self._seen) >= _SPIN_PLACES
        if news:
            self.moved()
        self._seen[place] = value

    @property
    def spinning(self) -> str:
        """What a client waits for in vain; "" while it does not."""
        if self._idle_reads < self._spin_reads:
            return ""
        places = ", ".join(
            f"{place} = {value.hex() if isinstance(value, bytes) else hex(value)}"
            for place, value in self._seen.items()
        )
        return f"{places}: {self._idle_reads} reads without news"
