"""R13: 32, then 17 of everything the tensor layer makes; bytes, maps and descriptors come back."""

from __future__ import annotations

import gc
import os
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import tensor as xp
from drivers.base.errors import Unsupported
from tensor import engine
from tests.support import check

EAGER_OPS = 10_000
RSS_SLACK_BYTES = 4 << 20
WINDOWS = 3
"""Memory that earlier tests gave back may be filled anew once, and an arena of Python's may be
mapped; a leak grows in every window."""
ARENAS = 3
"""Maps that Python's own allocator may have made since; a leak would be one for each object."""
ROUNDS_UNTIL_FULL = 9
"""More rounds until a vendor's own cache is full: bind groups of WebGPU, 128 a kernel."""


def state() -> tuple[int, int, int, int]:
    """(device bytes in use, live blocks, maps of the process, its descriptors)."""
    gc.collect()
    device = engine.device()
    device.synchronize()
    held = device.memory_stats()
    with open("/proc/self/maps") as maps:
        count = sum(1 for _ in maps)
    return held.used_bytes, held.live, count, len(os.listdir("/proc/self/fd"))


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def numbers() -> np.ndarray:
    return np.arange(1000, dtype=np.float32)


def captured() -> object:
    function = xp.jit(lambda x: (x * 2, (x + 1).realize() * 3))
    x = xp.asarray(numbers())
    return function, [function(x) for _ in range(3)]


def failed() -> object:
    def function(x):
        return float(xp.sum((x + 1).realize()))

    with pytest.raises(Unsupported):
        xp.jit(function)(xp.asarray(numbers()))
    return None


def threw_away() -> object:
    x = xp.asarray(numbers())
    x[3] = 7.0
    x += 1
    return x.realize(), xp.sort(x).realize()


def blob(array: Any) -> xp.Tensor:
    at = array.__array_interface__["data"][0]
    return xp.from_blob(at, array.shape, array.dtype, "CPU", owner=array)


MAKERS = {
    "shared": lambda: xp.asarray(numbers()),
    "copied": lambda: xp.asarray(numbers(), copy=True),
    "lazy": lambda: xp.asarray(numbers()) * 2 + 1,
    "computed": lambda: (xp.asarray(numbers()) * 2 + 1).realize(),
    "reduced": lambda: xp.softmax(xp.reshape(xp.asarray(numbers()), (10, 100))).realize(),
    "assigned": threw_away,
    "numpy": lambda: (xp.asarray(numbers()) * 2).numpy(),
    "dlpack out": lambda: np.from_dlpack(xp.asarray(numbers()) * 2),
    "dlpack capsule": lambda: (xp.asarray(numbers()) * 2).__dlpack__(max_version=(1, 1)),
    "dlpack in": lambda: xp.from_dlpack(numbers()),
    "blob": lambda: blob(numbers()),
    "strided blob": lambda: (blob(numbers())[::-3], blob(numbers()).numpy()[5:]),
    "array interface": lambda: np.asarray(xp.asarray(numbers(), device="CPU") * 2),
    "pickle": lambda: pickle.loads(pickle.dumps(xp.asarray(numbers()) * 2)),
    "jit": captured,
    "failed jit": failed,
    "random": lambda: xp.random.normal(xp.random.key(3), (100,)).realize(),
}


EVERYWHERE = [
    pytest.param(
        name, marks=pytest.mark.host_memory if name in ("dlpack out", "dlpack capsule") else ()
    )
    for name in MAKERS
]


@pytest.mark.parametrize("name", EVERYWHERE)
def test_everything_comes_back(name):
    make = MAKERS[name]
    made = [make() for _ in range(32)]
    del made
    baseline = state()
    grown = []
    for count in (32, 17, 32):
        made = [make() for _ in range(count)]
        during = state()
        del made
        used, live, maps, files = state()
        np.testing.assert_equal((used, live), baseline[:2])
        check(files <= baseline[3], f"{files} descriptors, {baseline[3]} before")
        grown.append(maps - baseline[2] - sum(grown))
        visible = engine.device().limits.uses_host_memory  # else numpy() is a copy
        if name in ("computed", "jit") or (name == "numpy" and visible):
            check(during[1] >= baseline[1] + count, "the objects hold device memory while alive")
    if visible:
        check(sum(grown) <= ARENAS, f"maps grew by {grown}")
    for _ in range(ROUNDS_UNTIL_FULL):
        if min(grown) <= ARENAS:
            break
        made = [make() for _ in range(32)]
        del made
        grown.append(state()[2] - baseline[2] - sum(grown))
    check(min(grown) <= ARENAS, f"maps grew each time, by {grown}: a vendor's pools would not")


@pytest.mark.resident_memory
@pytest.mark.parametrize("captured", [False, True])
def test_ten_thousand_operations_do_not_grow(captured):
    def step(x):
        return x * 1.0001 + 0.5

    run = xp.jit(step) if captured else step

    def work(count: int) -> None:
        x = xp.asarray(numbers())
        for _ in range(count):
            x = run(x).realize()

    work(1000)
    grown = []
    for _ in range(WINDOWS):
        (used, live, maps, files), resident = state(), resident_bytes()
        work(EAGER_OPS)
        after = state()
        np.testing.assert_equal((*after[:2], after[3]), (used, live, files))
        grown.append((after[2] - maps, resident_bytes() - resident))
        if grown[-1][0] <= 0 and grown[-1][1] <= RSS_SLACK_BYTES:
            return
    check(False, f"maps and resident bytes grew each time: {grown}")


def test_kernels_of_lengths_that_are_not_used_are_let_go(monkeypatch):
    """A program whose lengths always differ: as many programs are loaded as plans are kept."""
    most, loaded = 3, weakref.WeakSet()
    monkeypatch.setattr(engine, "MAX_PLANS", most)
    run = engine.runtime(engine.default_device())
    for length in range(41, 49):
        x = xp.asarray(np.ones(length, np.float32))
        np.testing.assert_array_equal((x * 2 + 1).numpy(), np.full(length, 3, np.float32))
        check(len(run.executables) <= most, f"{len(run.executables)} plans")
        for kept in run.executables.values():
            loaded.update(launch.program for launch in kept.launches)
    gc.collect()
    check(len(loaded) <= most, f"{len(loaded)} programs are loaded, of {most} plans")
