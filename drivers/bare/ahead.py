"""Registers and memory behind a slow bus: what is read next may be asked for together.

A hint changes no value and no order: behind a fast bus, and where another access comes instead, it
does nothing. What is hinted at is read at once, in the order of the hints, so that whoever hints
knows that no write comes between.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from drivers.base.contracts import Region


@runtime_checkable
class Foresees(Protocol):
    """A region whose accesses are queued."""

    def expect(self, *offs: int) -> None:
        """The next reads are those of the dwords at `offs`, in this order."""

    def post(self, off: int) -> None:
        """Read a dword behind the writes before it, and drop its value, without waiting."""


def expect(region: Region, *offs: int) -> None:
    """See `Foresees.expect`."""
    if isinstance(region, Foresees):
        region.expect(*offs)
