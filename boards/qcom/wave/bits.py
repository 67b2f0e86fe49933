"""Fields of instruction words."""

from __future__ import annotations


def bits(word: int, low: int, high: int) -> int:
    """The unsigned value of bits low ... high."""
    return word >> low & ((1 << (high - low + 1)) - 1)


def signed(value: int, width: int) -> int:
    """A two's complement number of `width` bits."""
    return value - (1 << width) if value >> (width - 1) & 1 else value


class NotModelled(Exception):
    """An instruction, or a form of one, that this executor gives no meaning."""
