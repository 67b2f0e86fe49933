"""Signals of an Adreno: 32 bits that the command processor compares, and the counter's 64 bits."""

from __future__ import annotations

from typing import Final

from drivers.base.errors import BadArgument
from drivers.gpu.signal import GpuSignal

SIGNAL_BITS: Final = 32
"""WAIT_REG_MEM compares words. # src: Mesa adreno_pm4.xml"""
MAX_VALUE: Final = (1 << SIGNAL_BITS) - 1
TIME_OFF: Final = 8
"""Of the time, in the slot."""


class QcomSignal(GpuSignal):
    """A value that only grows."""

    __slots__ = ()


def checked_value(value: object) -> int:
    """A value that queues can compare. Raises: BadArgument."""
    if type(value) is not int or not 0 <= value <= MAX_VALUE:
        raise BadArgument(f"{value!r} is not a signal value", hint="pass 0 ... 2**32 - 1")
    return value
