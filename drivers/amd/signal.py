"""Signals of an AMD device: of at most 32 bits, the width that its queues compare."""

from __future__ import annotations

from typing import Final

from drivers.base.errors import BadArgument
from drivers.gpu.signal import GpuSignal

MAX_VALUE: Final = (1 << 32) - 1
"""Queues compare 32 bits. # src: WAIT_REG_MEM, POLL_REGMEM: one reference word"""


class AmdSignal(GpuSignal):
    """A value that only grows, of at most 32 bits."""

    __slots__ = ()


def checked_value(value: object) -> int:
    """A value that queues can compare. Raises: BadArgument."""
    if type(value) is not int or not 0 <= value <= MAX_VALUE:
        raise BadArgument(f"{value!r} is no signal value", hint="pass 0 ... 2**32 - 1")
    return value
