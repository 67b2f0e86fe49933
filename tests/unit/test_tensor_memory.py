"""`xp.memory_stats`: the bytes that tensors of a device hold."""

from __future__ import annotations

import gc

import pytest

import tensor as xp
from drivers.base.errors import NotFound
from tests.support import check

BYTES = 4 << 16


def test_a_computed_tensor_is_counted_until_it_is_gone() -> None:
    gc.collect()
    before = xp.memory_stats("CPU")
    x = (xp.zeros((1 << 16,), dtype=xp.float32, device="CPU") + 1).realize()
    during = xp.memory_stats("CPU")
    check(BYTES <= during.used_bytes - before.used_bytes <= 2 * BYTES, f"{before}, {during}")
    del x
    after = xp.memory_stats("CPU")
    check(after.used_bytes == before.used_bytes, f"{before}, {after}")
    check(after.peak_bytes >= during.used_bytes, f"{after}")
    limit = after.limit_bytes
    check(limit is not None and limit > BYTES, f"{after}: what the CPU may use")


def test_the_default_device_and_a_name_that_there_is_not() -> None:
    default = xp.__array_namespace_info__().default_device()
    check(xp.memory_stats().limit_bytes == xp.memory_stats(default).limit_bytes, default)
    with pytest.raises(NotFound):
        xp.memory_stats("NOTHING")
