"""Common to all tests."""

from __future__ import annotations


def check(condition: object, message: str = "") -> None:
    """An assertion that also holds under `python -O`."""
    if not condition:
        raise AssertionError(message or "check failed")
