"""Whether the order of the driver's operations may depend on which of its threads is first.

It may, except in recordings: a replay must do the same in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_depth = 0


@contextmanager
def in_order() -> Iterator[None]:
    """Inside, drivers start no threads whose order could differ in the next run."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


def is_in_order() -> bool:
    """Whether a fixed order is requested."""
    return _depth > 0
