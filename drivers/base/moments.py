"""Seconds that a device, a library or a file gives, as whole nanoseconds."""

from __future__ import annotations

from typing import Final

NS: Final = 1e9
END_S: Final = float(1 << 40)
"""No clock of a machine reads so much: 34,000 years."""


def nanoseconds(seconds: float) -> int:
    """0 for what is no time or span: NaN, infinity, END_S and beyond on either side."""
    return int(seconds * NS) if -END_S < seconds < END_S else 0
