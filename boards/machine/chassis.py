"""What every part of a board shares, whatever its vendor: time, one lock, violations, timeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import TypeAlias

from boards.machine.clock import Clock

Facts: TypeAlias = dict[str, int | str]
"""What is known of an event of the timeline."""
Trace: TypeAlias = Callable[[str, Facts], None]
NameOf: TypeAlias = Callable[[int], Sequence[str]]
"""Names of the kernels whose code is at an address; boards know no names."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Something silicon would have let pass. One for each kind and place."""

    kind: str
    what: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}" + (f" ({self.detail})" if self.detail else "")


class Chassis:
    """Time, lock, violations and timeline of one board.

    `late`: doorbells start nothing; work runs when the process waits, sleeps or reads the clock.
    """

    def __init__(self, *, late: bool = False) -> None:
        self.clock, self.late = Clock(), late
        self.lock = RLock()
        """Held by the thread that the board works for: ioctls and doorbells come one by one."""
        self.violations: list[Violation] = []
        self._found: set[tuple[str, str]] = set()
        self.trace: Trace | None = None

    def find(self, kind: str, what: str, detail: str = "") -> None:
        """Report a violation once."""
        if (kind, what) not in self._found:
            self._found.add((kind, what))
            self.violations.append(Violation(kind, what, detail))

    def event(self, name: str, **facts: int | str) -> None:
        """One event of the timeline; costs nothing when tracing is off."""
        if self.trace is not None:
            self.trace(name, facts)

    def forget_violations(self) -> None:
        """Start a new list, for a test that goes on."""
        self.violations.clear()
        self._found.clear()
