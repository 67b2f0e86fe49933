"""The AMD driver in front of boards: memory, copies, kernels, signals, queues, graphs."""

from __future__ import annotations

import numpy as np
import pytest

from drivers.amd.device import AmdDevice
from drivers.amd.memory import AmdBuffer
from drivers.amd.program import AmdProgram
from drivers.base.contracts import Param
from drivers.base.errors import BadArgument, DeviceTimeout, Hang, Unsupported, UseAfterFree
from tests import amd_kernels
from tests.boards.driver_harness import QUEUES, add, device_on, get, kernel, put
from tests.support import check

RANDOM = np.random.default_rng(3)
N = 1000
GROUPS = -(-N // 64)


def floats() -> np.ndarray:
    return RANDOM.standard_normal(N).astype(np.float32)


@pytest.mark.parametrize(("chip", "queue"), QUEUES)
def test_copies_and_kernels(chip: str, queue: str) -> None:
    a, b = floats(), floats()
    with device_on(chip, queue) as (_, device):
        program = device.load(add(chip))
        buffers = [put(device, a), put(device, b), device.alloc(4 * N)]
        device.launch(program, [*buffers, N], GROUPS)
        np.testing.assert_array_equal(get(device, buffers[2]), a + b)
        for _ in range(3):  # c = c + b, one after the other, without looking in between
            device.launch(program, [buffers[2], buffers[1], buffers[2], N], GROUPS)
        expected = a + b
        for _ in range(3):
            expected = expected + b
        np.testing.assert_array_equal(get(device, buffers[2]), expected)
        table = device.load(kernel(amd_kernels.table(), chip, 1))
        device.launch(table, [buffers[0], 2], 1)
        check(get(device, buffers[0], "int32")[0] == 7)
        tile = device.load(kernel(amd_kernels.reverse(64), chip, 64))
        device.launch(tile, [buffers[1], buffers[2]], 15)
        got = get(device, buffers[2])[: 15 * 64].reshape(15, 64)
        np.testing.assert_array_equal(got, b[: 15 * 64].reshape(15, 64)[:, ::-1])


@pytest.mark.parametrize(("chip", "queue"), QUEUES)
def test_private_memory(chip: str, queue: str) -> None:
    with device_on(chip, queue) as (_, device):
        program = device.load(kernel(amd_kernels.scratch(), chip, 64))
        out = device.alloc(4 * 64)
        device.launch(program, [out, 5], 1)
        np.testing.assert_array_equal(get(device, out, "int32"), 25 + np.arange(64))


@pytest.mark.parametrize(("chip", "queue"), QUEUES)
def test_queues_signals_and_graphs(chip: str, queue: str) -> None:
    a, b = floats(), floats()
    with device_on(chip, queue) as (_, device):
        program = device.load(add(chip))
        x, y, z = put(device, a), put(device, b), device.alloc(4 * N)
        copied, done = device.new_signal(), device.new_signal(1)
        device.copy_queue().wait(done, 2).copy(y, z, 4 * N).signal(copied, 7).submit()
        steps = device.compute_queue().exec(program, [x, y, z, N], (GROUPS, 1, 1))
        steps.barrier().timestamp(done).signal(done, 2).wait(copied, 7)
        steps.exec(program, [x, y, z, N], (GROUPS, 1, 1)).submit()
        copied.wait(7)
        check((done.value, copied.value) == (2, 7))
        check(0 < done.timestamp_ns <= copied.timestamp_ns)
        np.testing.assert_array_equal(get(device, z), a + (a + b))
        graph = device.compute_queue()
        for _ in range(4):
            graph.exec(program, [Param(0), x, Param(0), N], (GROUPS, 1, 1))
        bound = graph.signal(done, 3).bind()
        w = put(device, b)
        expected = b
        for target, rounds in ((z, 0), (w, 1), (w, 2)):
            bound.replay([target])
            for _ in range(4 * bool(rounds)):
                expected = expected + a
        done.wait(3)
        np.testing.assert_array_equal(get(device, w), expected)
        bound.close()
        with pytest.raises(UseAfterFree):
            bound.replay([w])


def test_a_queue_waits_for_the_host() -> None:
    a, b = floats(), floats()
    with device_on("gfx1100") as (_, device):
        program = device.load(add("gfx1100"))
        x, y, z = put(device, a), put(device, b), device.alloc(4 * N)
        go = device.new_signal()
        device.compute_queue().wait(go, 1).exec(program, [x, y, z, N], (GROUPS, 1, 1)).submit()
        with pytest.raises(DeviceTimeout, match="WAIT_REG_MEM") as late:
            device.synchronize(0.1)
        check(late.value.register == "AMD:0 compute queue" and "Signal what" in late.value.hint)
        with pytest.raises(Hang, match="WAIT_REG_MEM") as caught:
            device.synchronize()
        check(caught.value.queue == "AMD:0 compute queue")
        go.set(1)
        np.testing.assert_array_equal(get(device, z), a + b)


def test_graphs_of_copies_and_wrong_queues() -> None:
    a, b = floats(), floats()
    with device_on("gfx1100") as (_, device):
        x, y = put(device, a), put(device, b)
        graph = device.copy_queue().copy(Param(0), x, 4 * N).bind()
        graph.replay([y])
        device.synchronize()
        np.testing.assert_array_equal(get(device, y), a)
        with pytest.raises(BadArgument, match=r"\(\)|\[\]"):
            graph.replay([])
        with pytest.raises(Unsupported, match="only copies"):
            device.copy_queue().exec(device.load(add("gfx1100")), [])
        with pytest.raises(Unsupported, match="does not copy"):
            device.compute_queue().copy(x, y, 4)
        with pytest.raises(BadArgument, match="open Params"):
            device.copy_queue().copy(Param(0), x, 4).submit()


def launch_until_full(device: AmdDevice, program: AmdProgram, out: list[AmdBuffer]) -> Hang:
    """What the launch raised that found no room."""
    for turn in range(5000):
        try:
            device.launch(program, [out[turn % 4], turn % 4], 1)
        except Hang as full:
            check(turn > 900 and "is full" in str(full), f"{turn} launches: {full}")
            return full
    raise AssertionError("the ring was never full")


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_a_full_ring_waits_and_overwrites_nothing(queue: str) -> None:
    """A parked queue is filled to the brim, then goes on; then the ring wraps."""
    with device_on("gfx1100", queue) as (_, device):
        program = device.load(kernel(amd_kernels.table(), "gfx1100", 1))
        out = [put(device, np.zeros(1, np.int32)) for _ in range(4)]
        go = device.new_signal()
        device.compute_queue().wait(go, 1).submit()
        full = launch_until_full(device, program, out)
        check(("WAIT_REG_MEM" if queue == "PM4" else "PM4_IB") in full.dump, full.dump)
        check(not device.compute.idle)
        go.set(1)
        for extra in range(40):
            device.launch(program, [out[extra % 4], extra % 4], 1)
        check([int(get(device, one, "int32")[0]) for one in out] == [3, 5, 7, 11], queue)


def test_wrong_calls_run_nothing() -> None:
    with device_on("gfx1100") as (_, device):
        program = device.load(add("gfx1100"))
        x = device.alloc(4 * N)
        gone = device.alloc(64)
        gone.free()
        for args, grid in (([x, x, x], 1), ([x, x, x, N], 0), ([x, x, x, "n"], 1)):
            with pytest.raises(BadArgument):
                device.launch(program, args, grid)
        with pytest.raises(UseAfterFree, match="after it was freed"):
            device.launch(program, [gone, x, x, N], 1)
        with pytest.raises(UseAfterFree, match="freed twice"):
            gone.free()
        with pytest.raises(Unsupported, match="not visible to the host"):
            x.view()
        with pytest.raises(BadArgument, match="is outside"):
            device.copy_in(x, memoryview(bytes(4 * N + 1)))
        signal = device.new_signal(5)
        with pytest.raises(BadArgument, match="cannot go back"):
            signal.set(4)
        with pytest.raises(BadArgument, match="2\\*\\*32"):
            device.compute_queue().signal(signal, 1 << 32)
        program.close()
        with pytest.raises(UseAfterFree, match="after close"):
            device.launch(program, [x, x, x, N], 1)
        with pytest.raises(Unsupported, match="code for gfx1030"):
            device.load(add("gfx1030"))
    with pytest.raises(UseAfterFree, match="is closed"):
        device.alloc(4)
