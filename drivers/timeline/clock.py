"""A queue's clock, mapped to the host's monotonic clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from drivers.base.contracts import CommandQueue, Signal, World

NS: Final = 10**9
LOOKS: Final = 3
"""Of which the tightest counts: the first work of a queue takes longer."""


class QueueClock:
    """What has to be added to a queue's time stamps, and how wrong that may be."""

    def __init__(self) -> None:
        self.offset_ns = self.error_ns = 0
        self.read_s = float("-inf")
        """When it was last compared."""

    def compare(
        self,
        world: World,
        begin: Callable[[], CommandQueue],
        synchronize: Callable[[], None],
        signal: Signal,
    ) -> None:
        """Let an idle queue write its time between two readings of the host's clock."""
        looks: list[tuple[int, int, int]] = []
        for _ in range(LOOKS):
            before_ns = int(world.monotonic_s() * NS)
            begin().timestamp(signal).submit()
            synchronize()
            after_ns = int(world.monotonic_s() * NS) + 1
            looks.append((after_ns - before_ns, before_ns, signal.timestamp_ns))
        took_ns, before_ns, stamp_ns = min(looks)
        self.read_s = world.monotonic_s()
        if before_ns <= stamp_ns <= before_ns + took_ns:  # the device gives the host's time
            self.offset_ns, self.error_ns = 0, took_ns
        else:
            self.offset_ns, self.error_ns = before_ns + took_ns // 2 - stamp_ns, took_ns // 2

    def host_ns(self, stamp_ns: int) -> int:
        """A time stamp as the host's monotonic clock has it."""
        return stamp_ns + self.offset_ns
