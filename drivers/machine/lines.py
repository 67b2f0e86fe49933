"""What a check of the doctor reports."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARN, MISSING = "ok", "warn", "missing"


@dataclass(frozen=True, slots=True)
class Line:
    """One fact: its topic, its state (ok, warn, missing), what is so, and what to do about it."""

    topic: str
    state: str
    text: str
    advice: str = ""
