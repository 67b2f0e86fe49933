"""What a guest did to a board's GPU: a trace, who broke which rule, what it waited for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from boards.access_log import AccessLog
from boards.machine.chassis import Facts, Violation
from boards.machine.pci.function import PciFunction
from boards.vfio_user.regions import msi_on

SPIN = 2000
"""Reads of one register in a row, all answered alike, that count as waiting for it."""


@dataclass(slots=True)
class Touched:
    """How often an address was accessed, and the last value."""

    reads: int = 0
    writes: int = 0
    last: int = 0


class Journal:
    """`out` gets the trace of boards/access_log.py, the board's own events included."""

    def __init__(self, board: str, out: TextIO | None = None) -> None:
        self.log = AccessLog(board, out)
        self.unknown: dict[str, Touched] = {}
        """By address, registers that the board's tables lack."""
        self.unset: dict[str, int] = {}
        """Registers that nothing has given a value: how often each was read, as 0."""
        self.spins: dict[str, int] = {}
        """Registers that were read SPIN times in a row or more: how often, at most."""
        self.waits: Callable[[str], None] = lambda register: None
        """Called with a register that was read SPIN times in a row, and with "" behind the end."""
        self.sessions = 0
        """How often a driver has switched MSI on."""
        self.broken: dict[tuple[int, str], int] = {}
        """By session and text, how often a rule was broken; session 0 is all time without MSI."""
        self._armed = self._spinning = False

    def attach(self, function: PciFunction) -> None:
        """Hear of a function's events, beside whoever hears of them now, and of MSI on and off."""
        before = function.hardware.trace

        def event(name: str, facts: Facts) -> None:
            if before is not None:
                before(name, facts)
            self.event(name, facts)

        function.hardware.trace = event
        function.on_config(lambda: self.interrupts(on=msi_on(function.config)))

    def interrupts(self, *, on: bool) -> None:
        """Whether a driver has MSI on: a kernel's has, one that uses the BARs alone has not."""
        if on != self._armed:
            self._armed = on
            self.sessions += on
            self.log.event("MSI", {"on": int(on), "session": self.sessions})

    def event(self, name: str, facts: Facts) -> None:
        """Something on the board; a rule broken, for the first time or again, is counted."""
        self.log.event(name, facts)
        if name == "violation":
            kind, what, detail = (str(facts.get(key, "")) for key in ("kind", "what", "detail"))
            key = self.sessions if self._armed else 0, str(Violation(kind, what, detail))
            self.broken[key] = self.broken.get(key, 0) + 1

    def access(self, op: str, register: str, value: int) -> None:
        """One access: "read" or "write", "GC[0].CP_STAT", value."""
        self.log.access(op, register, value)
        if op == "read" and self.log.in_a_row >= SPIN:
            self.spins[register] = max(self.log.in_a_row, self.spins.get(register, 0))
            if self.log.in_a_row == SPIN:
                self._spinning = True
                self.waits(register)
        elif self._spinning:
            self._spinning = False
            self.waits("")

    def phase(self, name: str) -> None:
        """A driver has got somewhere, as the vendor's board sees it."""
        self.log.phase(name)

    def unset_read(self, register: str) -> None:
        """A read of a register that nothing has given a value."""
        self.unset[register] = self.unset.get(register, 0) + 1

    def lacking(self, op: str, place: str, value: int) -> None:
        """An access to an address that no table has."""
        touched = self.unknown.setdefault(place, Touched())
        touched.reads += op == "read"
        touched.writes += op == "write"
        touched.last = value
        self.log.event("not modelled", {"op": op, "place": place, "value": value})

    def report(self) -> list[str]:
        """One line for each register that the board does not model, and that was waited for."""
        lines = [
            f"not modelled: {where}: {touched.reads} reads (answered 0), {touched.writes} writes"
            f", last {touched.last:#x}"
            for where, touched in sorted(self.unknown.items())
        ]
        lines += [
            f"without a value: {where}: {count} reads (answered 0)"
            for where, count in sorted(self.unset.items())
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
        self.log.mark("end")
