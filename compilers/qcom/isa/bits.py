"""Fields of 64-bit words: a value that does not fit is an error."""

from __future__ import annotations

from drivers.base.errors import CompileError


def refused(text: str) -> CompileError:
    """No such instruction."""
    return CompileError(f"ir3: {text}")


def put(name: str, value: int, low: int, high: int) -> int:
    """An unsigned value in place. Raises: CompileError."""
    if not 0 <= value < 1 << (high - low + 1):
        raise refused(f"{name} = {value} does not fit {high - low + 1} bits")
    return value << low


def put_signed(name: str, value: int, low: int, high: int) -> int:
    """A two's complement value in place. Raises: CompileError."""
    width = high - low + 1
    if not -(1 << (width - 1)) <= value < 1 << (width - 1):
        raise refused(f"{name} = {value} does not fit {width} signed bits")
    return (value & ((1 << width) - 1)) << low


def get(word: int, low: int, high: int) -> int:
    """The unsigned value of a field."""
    return word >> low & ((1 << (high - low + 1)) - 1)


def get_signed(word: int, low: int, high: int) -> int:
    """The two's complement value of a field."""
    value, width = get(word, low, high), high - low + 1
    return value - (1 << width) if value >> (width - 1) else value
