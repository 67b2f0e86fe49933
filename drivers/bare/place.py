"""A piece of VRAM that a driver keeps for itself, at a place that a warm re-attach finds again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes of VRAM."""

    offset: int
    nbytes: int

    @property
    def end(self) -> int:
        """The byte behind it."""
        return self.offset + self.nbytes
