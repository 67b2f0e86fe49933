"""What one kind of GPU writes into page tables: levels, entries, and what an entry allows.

`drivers/bare/page_table.py` builds and forgets tables of any format that says this much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Rights:
    """What an entry allows."""

    writable: bool
    executable: bool
    uncached: bool


@dataclass(frozen=True, slots=True)
class Level:
    """Tables at one distance from the root."""

    shift: int
    """Of the bits of an address that index the table."""
    entries: int
    """A power of two."""
    entry_bytes: int
    maps: bool
    """Whether an entry may map memory itself, (1 << shift) bytes. Those of the last level do."""


class Format(Protocol):
    """A format. Levels are numbered from the root, which is 0."""

    @property
    def levels(self) -> tuple[Level, ...]:
        """From the root to the smallest pages."""

    @property
    def va_bits(self) -> int:
        """Bits of an address that is translated."""

    @property
    def address_bits(self) -> int:
        """Bits of the address of memory."""

    @property
    def address_shift(self) -> int:
        """How far an entry has the address of memory shifted to the right."""

    def table(self, address: int, level: int) -> int:
        """The entry in a table of `level` for the table of the next level at an address."""

    def empty(self, level: int) -> int:
        """The entry in a table of `level` behind which there is nothing."""

    def page(self, level: int, rights: Rights, *, system: bool) -> int:
        """Everything of an entry that maps memory, but its address and `together`.

        `system`: memory of the host, by its address on the bus; else VRAM.
        """

    def together(self, level: int, log2_pages: int) -> int:
        """What says that an entry is one of 2^n pages that lie together and are alike.

        Of an upper level: how many pages its entry maps. 0 where entries do not say it.
        """
