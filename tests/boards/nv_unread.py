"""An NVIDIA device whose rings and doorbells are plain memory: a launch is the driver's own work.

`python -m tests.boards.nv_unread ga102` prints what a launch costs the host; nothing checks times.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from benchmarks.host_cost import CALLS, LAUNCH_GOAL_US, Cost, median_us
from drivers.nv.device import NvDevice
from drivers.nv.push_ring import ENTRIES
from tests.boards.nv_harness import binary, device_on

DONE: Final = 1 << 60
"""How far every queue has come: further than it will be given work."""
BUFFER_BYTES: Final = 4096


def _ring(ring: Any) -> None:
    """The hardware hears nothing more of a ring."""
    cell = memoryview(bytearray(8)).cast("Q")
    cell[0] = DONE
    place = memoryview(bytearray(4)).cast("I")

    def store(value: int) -> None:
        place[0] = 1

    ring.bytes = memoryview(bytearray(ring.ring_bytes))
    ring._entries = memoryview(bytearray(8 * ENTRIES)).cast("Q")
    ring._gp_put = memoryview(bytearray(4)).cast("I")
    ring._cell, ring.ring_doorbell = cell, store


_TAKEN: Final = ("bytes", "_entries", "_gp_put", "_cell", "ring_doorbell", "put", "_count", "limit")


@contextmanager
def unread(device: NvDevice) -> Iterator[None]:
    """Inside, queues are not read; afterwards they stand where they stood."""
    device.synchronize()
    before = [{name: getattr(ring, name) for name in _TAKEN} for ring in device.pair.rings]
    for ring in device.pair.rings:
        _ring(ring)
    try:
        yield
    finally:
        for ring, values in zip(device.pair.rings, before, strict=True):
            for name, value in values.items():
                setattr(ring, name, value)


@contextmanager
def launching(chip: str) -> Iterator[Callable[[], None]]:
    """A launch with three buffers and a number, on a device that is not read."""
    with device_on(chip) as (device, _):
        program = device.load(binary(device))
        arguments = [*(device.alloc(BUFFER_BYTES) for _ in range(3)), 64]
        with unread(device):
            yield partial(device.launch, program, arguments, 1)


def main(chip: str) -> int:
    """Print the cost; 0 where the goal is reached."""
    with launching(chip) as launch:
        cost = Cost(f"launch, three buffers, {chip}", median_us(launch, CALLS), LAUNCH_GOAL_US)
    sys.stdout.write(f"{cost.line()}\n")
    return int(not cost.met)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
