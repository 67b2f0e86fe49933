"""An instruction word whose bits have to be accounted for: what nobody read is refused."""

from __future__ import annotations

from boards.nv.isa.control import STALL_LOW

_CONTROL = ((1 << 21) - 1) << STALL_LOW
"""Stall to reuse: bits 105 to 125, which `Control` reads."""
_PREDICATE_BITS, _REGISTER_BITS = 3, 8
ZERO, TRUE = 255, 7
"""RZ and PT. # src: Mesa src/nouveau/compiler/nak/sm70_encode.rs"""


class NotModelled(Exception):
    """An instruction, or a form of it, that this executor does not have."""


class Bits:
    """A 128-bit word, and which of its bits were read."""

    def __init__(self, word: int) -> None:
        self.word = word
        self._seen = _CONTROL

    def take(self, low: int, width: int = 1) -> int:
        """A field, counted as read."""
        ones = (1 << width) - 1
        self._seen |= ones << low
        return self.word >> low & ones

    def signed(self, low: int, width: int) -> int:
        """A field in two's complement."""
        value = self.take(low, width)
        return value - (1 << width) if value >> (width - 1) else value

    def register(self, low: int) -> int:
        """The number of a register."""
        return self.take(low, _REGISTER_BITS)

    def predicate(self, low: int) -> int:
        """The number of a predicate."""
        return self.take(low, _PREDICATE_BITS)

    def only(self, low: int, width: int, *values: int) -> None:
        """A field that has to be one of some values. Raises: NotModelled."""
        value = self.take(low, width)
        if value not in values:
            raise NotModelled(f"{value:#x} in bits {low} to {low + width - 1}")

    def finish(self) -> None:
        """Raises: NotModelled for a bit that is set and means nothing here."""
        left = self.word & ~self._seen
        if left:
            raise NotModelled(f"bit {(left & -left).bit_length() - 1}")
