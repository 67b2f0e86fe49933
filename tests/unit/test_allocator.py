"""The caching allocator against a model that counts every raw byte."""

from __future__ import annotations

import random
import threading

import pytest

from drivers.base.allocator import Allocator, class_bytes
from drivers.base.errors import DeviceGone, OutOfMemory, UseAfterFree
from tests.support import check


class Raw:
    """A device of `capacity` bytes that knows what is out."""

    def __init__(self, capacity: int = 1 << 40) -> None:
        self.capacity, self.live = capacity, {}
        self.allocs = 0

    def alloc(self, nbytes: int) -> object:
        if sum(self.live.values()) + nbytes > self.capacity:
            raise OutOfMemory("raw", requested=nbytes, used=0, cached=0, limit=self.capacity)
        block = object()
        self.live[block] = nbytes
        self.allocs += 1
        return block

    def free(self, block: object) -> None:
        del self.live[block]


def make(capacity: int = 1 << 40, limit: int = 1 << 40) -> tuple[Allocator[object], Raw]:
    raw = Raw(capacity)
    return Allocator(raw.alloc, raw.free, limit), raw


def test_classes_hold_the_request_and_waste_an_eighth_at_most() -> None:
    rng = random.Random(3)
    sizes = [*range(0, 5000), *(rng.randint(1, 1 << 36) for _ in range(2000))]
    for nbytes in sizes:
        size = class_bytes(nbytes)
        check(size >= max(nbytes, 1) and size % 64 == 0, f"{nbytes} -> {size}")
        check(size - nbytes <= max(64, nbytes / 8), f"{nbytes} -> {size}")
        check(class_bytes(size) == size, "a class is its own class")


def test_a_freed_block_serves_the_next_of_its_class() -> None:
    allocator, raw = make()
    first = allocator.alloc(1000)
    allocator.free(first)
    check(allocator.alloc(1001) is first and raw.allocs == 1)
    now = allocator.memory_stats()
    check((now.allocations, now.hits, now.live) == (2, 1, 1), str(now))
    check((now.used_bytes, now.cached_bytes, now.peak_bytes) == (1024, 0, 1024), str(now))


def test_freed_exactly_once() -> None:
    allocator, raw = make()
    block = allocator.alloc(10)
    allocator.free(block)
    with pytest.raises(UseAfterFree):
        allocator.free(block)
    with pytest.raises(UseAfterFree):
        allocator.free(object())
    check(allocator.memory_stats().cached_bytes == 64 and len(raw.live) == 1)


def test_the_limit_counts_the_cache_and_releases_it_first() -> None:
    allocator, raw = make(limit=4096)
    allocator.free(allocator.alloc(2048))
    block = allocator.alloc(4096)
    check(raw.live == {block: 4096}, "the cached block went back")
    with pytest.raises(OutOfMemory, match="its limit") as caught:
        allocator.alloc(64)
    error = caught.value
    check((error.requested, error.used, error.cached, error.limit) == (64, 4096, 0, 4096))


def test_a_full_device_is_tried_once_more_without_the_cache() -> None:
    allocator, raw = make(capacity=4096)
    allocator.free(allocator.alloc(2048))
    block = allocator.alloc(4096)
    check(raw.live == {block: 4096})
    with pytest.raises(OutOfMemory, match="device's memory") as caught:
        allocator.alloc(128)
    check((caught.value.requested, caught.value.used) == (128, 4096))
    allocator.free(block)
    check(allocator.alloc(4096) is block, "usable after the failure")


def test_trim_gives_everything_back() -> None:
    allocator, raw = make()
    blocks = [allocator.alloc(n) for n in (1, 100, 1000, 1000)]
    for block in blocks:
        allocator.free(block)
    check(allocator.trim() == 64 + 128 + 1024 + 1024)
    check(not raw.live and allocator.memory_stats().cached_bytes == 0)


def test_trim_frees_the_rest_when_one_block_fails() -> None:
    freed: list[object] = []

    def free(block: object) -> None:
        freed.append(block)
        if len(freed) == 1:
            raise DeviceGone("unplugged")

    allocator: Allocator[object] = Allocator(lambda nbytes: object(), free, 1 << 20)
    for block in [allocator.alloc(64) for _ in range(3)]:
        allocator.free(block)
    with pytest.raises(DeviceGone):
        allocator.trim()
    check(len(freed) == 3)


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        make()[0].alloc(-1)


def test_random_use_never_loses_a_byte() -> None:
    allocator, raw = make(limit=1 << 20)
    rng, live = random.Random(5), []
    for _ in range(20_000):
        if live and rng.random() < 0.5:
            allocator.free(live.pop(rng.randrange(len(live))))
            continue
        try:
            live.append(allocator.alloc(rng.randint(0, 1 << 14)))
        except OutOfMemory:
            check(live, "an empty allocator is never full")
        now = allocator.memory_stats()
        check(now.used_bytes + now.cached_bytes == sum(raw.live.values()) <= 1 << 20)
        check(now.live == len(live))
    for block in live:
        allocator.free(block)
    allocator.trim()
    check(not raw.live and allocator.memory_stats().used_bytes == 0)


def test_threads_share_it() -> None:
    allocator, raw = make()

    def work() -> None:
        for _ in range(2000):
            allocator.free(allocator.alloc(500))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    now = allocator.memory_stats()
    check(now.allocations == 8000 and now.used_bytes == 0 and now.live == 0, str(now))
    check(now.cached_bytes == sum(raw.live.values()))


def test_live_blocks_are_named_while_another_thread_allocates() -> None:
    """Its raw memory waits for us: a fault has to be described before its queue goes on."""
    named, found = threading.Event(), list[object]()

    def alloc(nbytes: int) -> object:
        if found:
            check(named.wait(60), "live() waits for the allocation")
        return object()

    made = Allocator[object](alloc, lambda block: None, 1 << 40)
    found.append(made.alloc(64))
    thread = threading.Thread(target=made.alloc, args=(1 << 20,), daemon=True)
    thread.start()

    def describe() -> None:
        found.extend(made.live())
        named.set()

    describer = threading.Thread(target=describe, daemon=True)
    describer.start()
    describer.join(30)
    check(not describer.is_alive(), "live() waits for the allocation")
    thread.join(30)
    check(found[1:] == found[:1] and len(made.live()) == 2)
