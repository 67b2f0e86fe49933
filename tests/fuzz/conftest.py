"""What a damaged input costs is its reader's time, not that of Python's collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

_NEVER = 1 << 30


@pytest.fixture(autouse=True)
def only_young_objects_are_collected() -> Iterator[None]:
    """A collection of all that a process holds takes half a second where many tests ran before."""
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)
    yield
    gc.set_threshold(young, middle, old)
