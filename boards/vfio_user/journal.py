"""Every access of a guest by register name, and what it touched that the board does not model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TextIO

from boards.machine.chassis import Violation

SPIN = 2000
"""Reads of one register in a row, all answered alike, that count as waiting for it."""


@dataclass(slots=True)
class Touched:
    """How often an address was accessed, and the last value."""

    reads: int = 0
    writes: int = 0
    last: int = 0


class Journal:
    """Counts accesses; equal ones in a row are one line of the file."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out
        self.unknown: dict[str, Touched] = {}
        """By address, registers that the board's tables lack."""
        self.spins: dict[str, int] = {}
        """Registers that were read SPIN times in a row or more: how often, at most."""
        self.sessions = 0
        """How often a driver has switched MSI on."""
        self.broken: dict[tuple[int, str], int] = {}
        """By session and text, how often a rule was broken; session 0 is all time without MSI."""
        self._armed = False
        self._last = ("", "", 0)
        self._count = 0

    def interrupts(self, *, on: bool) -> None:
        """Whether a driver has MSI on: a kernel's has, one that uses the BARs alone has not."""
        if on != self._armed:
            self._armed = on
            self.sessions += on
            self.say(f"MSI {'on' if on else 'off'}, session {self.sessions}")

    def violation(self, kind: str, what: str, detail: str) -> None:
        """A rule was broken, for the first time or again."""
        key = self.sessions if self._armed else 0, str(Violation(kind, what, detail))
        self.broken[key] = self.broken.get(key, 0) + 1

    def access(self, kind: str, where: str, value: int) -> None:
        """One access: "read" or "write", "GC[0].CP_STAT", value."""
        now = (kind, where, value)
        if now == self._last:
            self._count += 1
            if kind == "read" and self._count >= SPIN:
                self.spins[where] = max(self._count, self.spins.get(where, 0))
            return
        self._flush()
        self._last, self._count = now, 1

    def _flush(self) -> None:
        kind, where, value = self._last
        if where and self.out is not None:
            times = f" x{self._count}" if self._count > 1 else ""
            print(f"{kind} {where} {value:#x}{times}", file=self.out)

    def lacking(self, kind: str, where: str, value: int) -> None:
        """An access to an address that no table has."""
        touched = self.unknown.setdefault(where, Touched())
        touched.reads += kind == "read"
        touched.writes += kind == "write"
        touched.last = value
        self.access(kind, f"{where} (not modelled)", value)

    def say(self, text: str) -> None:
        """Something between the accesses."""
        self._flush()
        self._last, self._count = ("", "", 0), 0
        if self.out is not None:
            print(f"# {text}", file=self.out)

    def report(self) -> list[str]:
        """One line for each register that the board does not model, and that was waited for."""
        lines = [
            f"not modelled: {where}: {touched.reads} reads (answered 0), {touched.writes} writes"
            f", last {touched.last:#x}"
            for where, touched in sorted(self.unknown.items())
        ]
        return lines + [
            f"waited for: {where}: {count} equal reads in a row"
            for where, count in sorted(self.spins.items())
        ]

    def blame(self) -> list[str]:
        """One line for each violation in each session, and the number of sessions."""
        lines = [
            f"broken in session {session}: {count} x {text}"
            for (session, text), count in sorted(self.broken.items())
        ]
        return [*lines, f"sessions with MSI: {self.sessions}"]

    def close(self) -> None:
        """Write what is left."""
        self.say("end")
