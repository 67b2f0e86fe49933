"""`Device.memory_stats` of every device: what an allocation and a free change, and the limit."""

from __future__ import annotations

import pytest

from drivers.base.contracts import Device, MemoryStats
from drivers.base.errors import OutOfMemory
from tests.contract.arrays import get, put, ramp
from tests.support import check

NBYTES = 1 << 16
WASTE = 8
"""A size class is at most an eighth larger than what was asked for."""


def stats(device: Device) -> MemoryStats:
    """With nothing in flight, so that all that was freed has come back."""
    device.synchronize()
    return device.memory_stats()


def test_used_grows_with_an_allocation_and_returns(device: Device) -> None:
    before = stats(device)
    buffer = device.alloc(NBYTES)
    during = stats(device)
    grown = during.used_bytes - before.used_bytes
    check(NBYTES <= grown <= NBYTES + NBYTES // WASTE, f"{grown} bytes")
    check((during.live, during.allocations) == (before.live + 1, before.allocations + 1))
    buffer.free()
    after = stats(device)
    check((after.used_bytes, after.live) == (before.used_bytes, before.live), f"{after}")
    check(after.cached_bytes >= NBYTES, f"{after}: a freed buffer is kept")
    check(during.used_bytes + during.cached_bytes <= after.peak_bytes, f"{after}")


def test_the_peak_keeps_what_was_held_at_once(device: Device) -> None:
    buffers = [device.alloc(NBYTES) for _ in range(3)]
    held = stats(device)
    for buffer in buffers:
        buffer.free()
    after = stats(device)
    check(after.used_bytes <= held.used_bytes - 3 * NBYTES, f"{held}, {after}")
    check(after.peak_bytes >= held.peak_bytes >= held.used_bytes + held.cached_bytes, f"{after}")
    again = device.alloc(NBYTES)
    found = stats(device)
    check(found.hits == after.hits + 1 and found.peak_bytes == after.peak_bytes, f"{found}")
    again.free()


def test_work_leaves_nothing_in_use(device: Device) -> None:
    before = stats(device).used_bytes
    buffer = put(device, ramp(64))
    check((get(device, buffer) == ramp(64)).all(), "a copy there and back")
    del buffer
    check(stats(device).used_bytes == before, f"{before} bytes before")


def test_the_limit_is_what_a_device_may_give(device: Device) -> None:
    found = stats(device)
    if found.limit_bytes is None:
        check(found.limit_reason, "why it is not known")
        return
    check(not found.limit_reason and found.limit_bytes == device.limits.memory_bytes, f"{found}")
    with pytest.raises(OutOfMemory) as caught:
        device.alloc(found.limit_bytes + 1)
    check(caught.value.limit <= found.limit_bytes, f"{caught.value}")
    check(stats(device).used_bytes == found.used_bytes, "what was refused is not in use")
