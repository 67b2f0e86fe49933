"""JSON of a stranger, one line at a time: few elements, and only finite, bounded numbers.

Python's own reader takes Infinity, NaN and 1e999, and makes 10 MiB of objects of 1 MiB of `{},{}`.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, Final

MOST_BITS: Final = 64
"""Of a whole number, beside its sign."""
_STARTS: Final = b",[{"
"""Every element of a list or an object stands behind one of these bytes."""


def elements(line: bytes) -> int:
    """How many elements a line has at most; commas within texts count, too."""
    return sum(line.count(start) for start in _STARTS)


def parse(line: bytes, most_elements: int) -> Any:
    """The value of a line. Raises: ValueError with the rule; RecursionError for deep nesting."""
    if elements(line) > most_elements:
        raise ValueError(f"more than {most_elements} elements")
    return _DECODER.decode(str(line, "utf-8"))


def _whole(text: str) -> int:
    value = int(text)
    if abs(value) >> MOST_BITS:
        raise ValueError(f"a number of more than {MOST_BITS} bits")
    return value


def _fraction(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError("a number that is not finite")
    return value


def _constant(text: str) -> float:
    raise ValueError(f"{text} is not a number of JSON")


_DECODER: Final = json.JSONDecoder(
    parse_int=_whole, parse_float=_fraction, parse_constant=_constant
)
