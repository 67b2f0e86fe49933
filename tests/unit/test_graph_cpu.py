"""Graphs of the CPU: recorded once, patched where values changed, refused when something died."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from drivers.base.contracts import Param
from drivers.base.errors import BadArgument, UseAfterFree
from drivers.cpu import CpuDevice
from tests.cpu_harness import both, int64s, kernel, open_device, read


@pytest.fixture
def device() -> Iterator[CpuDevice]:
    with open_device() as opened:
        yield opened


@both
def test_replay_patches_every_place_of_a_param(native: bool) -> None:
    with open_device(native=native) as device:
        bump, ramp = device.load(kernel("bump")), device.load(kernel("ramp"))
        x, y, z = (int64s(device, np.zeros(4)) for _ in range(3))
        graph = (
            device.compute_queue()
            .exec(bump, (Param(1), Param(0)), (4, 1, 1))
            .exec(ramp, (z, Param(0), Param(1)), (4, 1, 1))
            .copy(Param(2), z, 16)
            .bind()
        )
        first, copy = np.zeros(4, np.int64), int64s(device, np.zeros(4))
        for step in (3, 3, 5):
            graph.replay((step, x, copy))
            first += step
            np.testing.assert_array_equal(read(x), first)
            np.testing.assert_array_equal(read(z), np.arange(4) * step + first)
            np.testing.assert_array_equal(read(copy)[:2], read(z)[:2])
        graph.replay([7, y, copy])
        np.testing.assert_array_equal(read(y), np.full(4, 7))
        np.testing.assert_array_equal(read(x), first)


def test_a_list_that_was_changed_in_place_is_seen(device: CpuDevice) -> None:
    bump, values = device.load(kernel("bump")), [int64s(device, [0]), int64s(device, [0])]
    graph = device.compute_queue().exec(bump, (Param(0), 1)).bind()
    target = [values[0]]
    graph.replay(target)
    target[0] = values[1]
    graph.replay(target)
    np.testing.assert_equal([read(v)[0] for v in values], [1, 1])


def test_wrong_values_are_refused_and_the_graph_survives(device: CpuDevice) -> None:
    bump, out, small = device.load(kernel("bump")), int64s(device, [0, 0]), device.alloc(8)
    graph = device.compute_queue().exec(bump, (Param(0), 1)).copy(out, Param(1), 16).bind()
    with open_device() as other:
        for values in [(), (out,), (out, out, out), (other.alloc(16), out), (out, 5), (out, small)]:
            with pytest.raises(BadArgument):
                graph.replay(values)
        with pytest.raises(BadArgument):
            graph.replay((None, out))
    np.testing.assert_array_equal(read(out), [0, 0])
    graph.replay((out, out))
    np.testing.assert_array_equal(read(out), [1, 0])


@pytest.mark.parametrize("what", ["recorded", "value", "program", "signal", "graph"])
def test_a_graph_of_dead_things_does_not_run(device: CpuDevice, what: str) -> None:
    bump, signal = device.load(kernel("bump")), device.new_signal()
    out, value = int64s(device, [0]), int64s(device, [0])
    graph = (
        device.compute_queue()
        .exec(bump, (out, 1))
        .exec(bump, (Param(0), 1))
        .signal(signal, 1)
        .bind()
    )
    values = (value,)
    graph.replay(values)
    views = [out.view(), value.view()]
    close = {
        "recorded": out.free,
        "value": value.free,
        "program": bump.close,
        "signal": signal.close,
        "graph": graph.close,
    }
    close[what]()
    for _ in range(2):
        with pytest.raises(UseAfterFree):
            graph.replay(values)
    for view in views:
        np.testing.assert_array_equal(np.frombuffer(view, np.int64), [1])


def test_an_unrelated_free_changes_nothing(device: CpuDevice) -> None:
    bump, out = device.load(kernel("bump")), int64s(device, [0])
    graph = device.compute_queue().exec(bump, (out, 1)).bind()
    for _ in range(3):
        graph.replay()
        device.alloc(64).free()
    np.testing.assert_array_equal(read(out), [3])


@both
def test_a_parked_replay_keeps_its_own_words(native: bool) -> None:
    with open_device(native=native) as device:
        bump, gate = device.load(kernel("bump")), device.new_signal()
        outs = [int64s(device, [0]) for _ in range(3)]
        graph = device.compute_queue().wait(gate, 1).exec(bump, (Param(0), Param(1))).bind()
        for number, out in enumerate(outs):
            graph.replay((out, number + 1))
        graph.close()
        np.testing.assert_equal([read(out)[0] for out in outs], [0, 0, 0])
        gate.set(1)
        device.synchronize()
        np.testing.assert_equal([read(out)[0] for out in outs], [1, 2, 3])


def test_an_empty_graph_replays(device: CpuDevice) -> None:
    graph = device.compute_queue().bind()
    graph.replay()
    graph.replay([])
    device.synchronize()
    graph.close()
    graph.close()
    with pytest.raises(UseAfterFree):  # none of the above may raise; this one must
        graph.replay()
