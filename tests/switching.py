"""Threads that take turns far more often than Python lets them, so that their races are met."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

OFTEN_S: Final = 1e-6


@contextmanager
def switching_often() -> Iterator[None]:
    """Every few instructions, in place of every 5 ms."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(OFTEN_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)
