"""What a launch makes: nothing but commands from the second one on, and 10,000 leave nothing."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from drivers.base.errors import DeviceError
from drivers.webgpu.stream import STAGING_BYTES
from tests.contract.arrays import get, put, ramp
from tests.share import part
from tests.support import check
from tests.unit.test_webgpu_faults import COUNT, program
from tests.webgpu import LIBRARIES, need, webgpu
from tests.webgpu_watch import MAKES, NULL, watched_world

COMMANDS = {"CommandEncoder", "CommandBuffer", "ComputePassEncoder"}
LAUNCHES = 10_000


def made(calls: Counter[str]) -> Counter[str]:
    """Objects that calls made, by kind."""
    found: Counter[str] = Counter()
    for name, kind in MAKES.items():
        found[kind] += calls[name]
    return found


@pytest.mark.parametrize("library", LIBRARIES)
def test_later_launches_make_commands_alone(library: str) -> None:
    need(library)
    world, watch = watched_world(library)
    with webgpu(library, world) as device:
        a, b, c = (put(device, ramp(COUNT, start)) for start in (0, 5, 9))
        kernel = program(device)
        graph = device.compute_queue().exec(kernel, [a, b, c], (2, 1, 1)).bind()
        device.launch(kernel, [a, b, c], 2)
        graph.replay()
        get(device, c)
        before, count = made(watch.calls), part(LAUNCHES, 500)
        live = {kind: n for kind, n in watch.live.items() if kind not in COMMANDS}
        for _ in range(count):
            device.launch(kernel, [a, b, c], 2)
            graph.replay()
        device.synchronize()
        after = made(watch.calls)
        new = {kind for kind in after if after[kind] > before[kind]}
        check(new == COMMANDS, f"{new}")
        now = {kind: n for kind, n in watch.live.items() if kind not in COMMANDS}
        check(now == live, f"{now}, before {live}")
        check(not any(watch.live[kind] for kind in COMMANDS), "all commands are handed over")
        np.testing.assert_array_equal(get(device, c), 3 * ramp(COUNT) + ramp(COUNT, 5))
    check(not watch.left, f"{watch.left}")


@pytest.mark.parametrize("library", LIBRARIES)
def test_new_buffers_in_each_launch_do_not_grow(library: str) -> None:
    """Bind groups of buffers that are gone are bounded, and end with the kernel."""
    need(library)
    world, watch = watched_world(library)
    with webgpu(library, world) as device:
        a, b = put(device, ramp(COUNT)), put(device, ramp(COUNT, 5))
        kernel = program(device)
        kept = []
        for number in range(300):
            kept.append(device.alloc(4 * COUNT))
            device.launch(kernel, [a, b, kept[-1]], 2)
            if number % 50 == 49:
                kept.clear()
        check(watch.live["BindGroup"] <= 128, f"{watch.live}")
        device.synchronize()
        kernel.close()
        device.alloc(4)
        check(watch.live["BindGroup"] == watch.live["ComputePipeline"] == 0, f"{watch.live}")
    check(not watch.left, f"{watch.left}")


@pytest.mark.parametrize("library", LIBRARIES)
def test_copies_for_aliased_arguments_are_given_back(library: str) -> None:
    """Also where the launch fails."""
    need(library)
    world, watch = watched_world(library)
    with webgpu(library, world) as device:
        a, b = put(device, ramp(COUNT)), put(device, ramp(COUNT, 5))
        kernel = program(device)
        live = device.memory_stats().live
        for _ in range(20):
            device.launch(kernel, [a, b, a], 2)
        check(device.memory_stats().live == live, f"{device.memory_stats()}, {live} before")
        watch.fail(NULL, 0, "wgpuDeviceCreateBindGroup")
        with pytest.raises(DeviceError, match="BindGroup"):
            device.launch(kernel, [b, a, b], 2)
        check(device.memory_stats().live == live, f"{device.memory_stats()}, {live} before")
    check(not watch.left, f"{watch.left}")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_kernel_closed_behind_a_wait_runs_and_leaves_nothing(library: str) -> None:
    need(library)
    world, watch = watched_world(library)
    with webgpu(library, world) as device:
        a, b, c = (put(device, ramp(COUNT, start)) for start in (0, 5, 9))
        kernel, signal = program(device), device.new_signal()
        device.compute_queue().wait(signal, 1).exec(kernel, [a, b, c], (2, 1, 1)).submit()
        kernel.close()
        signal.set(1)
        np.testing.assert_array_equal(get(device, c), 3 * ramp(COUNT) + ramp(COUNT, 5))
        del kernel
    check(not watch.left, f"{watch.left}")


@pytest.mark.parametrize("library", LIBRARIES)
def test_host_copies_alone_are_handed_over(library: str) -> None:
    """The library keeps a copy of what the host writes until a submit frees it."""
    need(library)
    world, watch = watched_world(library)
    with webgpu(library, world) as device:
        nbytes = STAGING_BYTES // 4
        a, data = device.alloc(nbytes), memoryview(bytes(nbytes))
        device.synchronize()
        before = watch.calls["wgpuQueueSubmit"]
        for _ in range(16):
            device.copy_in(a, data)
        submits = watch.calls["wgpuQueueSubmit"] - before
        check(submits >= 3, f"{submits} for 4 times the most that is kept")
        device.copy_in(a, data)
        before = watch.calls["wgpuQueueSubmit"]
        device.synchronize()
        check(watch.calls["wgpuQueueSubmit"] == before + 1, "the rest is handed over")
