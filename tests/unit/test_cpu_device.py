"""The CPU device: launches, copies, memory, refusals, and everything given back."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from drivers.base.contracts import Binary, Buffer, Fixup, Resources
from drivers.base.errors import (
    BadArgument,
    DeviceError,
    MalformedInput,
    NotFound,
    OutOfMemory,
    Unsupported,
    UseAfterFree,
)
from drivers.cpu import CpuDevice
from drivers.world.linux import LinuxWorld
from tests.cpu_harness import ARCH, both, int64s, kernel, open_device, read
from tests.support import check


@pytest.fixture
def device() -> Iterator[CpuDevice]:
    with open_device() as opened:
        yield opened


@both
@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 1000])
def test_a_launch_computes_every_item_once(native: bool, count: int) -> None:
    with open_device(native=native) as device:
        out, source = int64s(device, np.zeros(count)), int64s(device, np.arange(count) ** 2)
        device.launch(device.load(kernel("ramp")), (out, 3, source), count)
        np.testing.assert_array_equal(read(out), np.arange(count) * 3 + np.arange(count) ** 2)


def test_negative_arguments_are_twos_complement(device: CpuDevice) -> None:
    out = int64s(device, [5, 5])
    device.launch(device.load(kernel("bump")), [out, -7], 2)
    np.testing.assert_array_equal(read(out), [-2, -2])


def test_many_arguments_take_the_long_way(device: CpuDevice) -> None:
    out = int64s(device, [0])
    device.launch(device.load(kernel("bump")), [out, 4, *range(100)], 1)
    np.testing.assert_array_equal(read(out), [4])


def test_bad_launches_are_refused_before_anything_runs(device: CpuDevice) -> None:
    program, out = device.load(kernel("bump")), int64s(device, [0])
    dead = device.alloc(8)
    dead.free()
    with open_device() as other:
        foreign, foreign_program = other.alloc(8), other.load(kernel("bump"))
        for args, grid in [
            ((out, "1"), 1),
            ((out, 1.0), 1),
            ((out, True), 1),
            ((out, 2**64), 1),
            ((out, -(2**63) - 1), 1),
            ((out, None), 1),
            ((foreign, 1), 1),
            ((out, 1), 0),
            ((out, 1), -1),
            ((out, 1), 2**48 + 1),
            ((out, 1), 1.0),
        ]:
            with pytest.raises(BadArgument):
                device.launch(program, args, grid)
        with pytest.raises(BadArgument):
            device.launch(foreign_program, (out, 1), 1)
    with pytest.raises(UseAfterFree):
        device.launch(program, (dead, 1), 1)
    program.close()
    with pytest.raises(UseAfterFree):
        device.launch(program, (out, 1), 1)
    np.testing.assert_array_equal(read(out), [0])


def test_buffers_are_freed_exactly_once(device: CpuDevice) -> None:
    buffer = device.alloc(100)
    np.testing.assert_equal(buffer.view().nbytes, 100)
    buffer.free()
    for use in (buffer.free, buffer.view, lambda: buffer.gpu_va, lambda: buffer.map_to(device)):
        with pytest.raises(UseAfterFree):
            use()
    program = device.load(kernel("bump"))
    program.close()
    with pytest.raises(UseAfterFree):
        program.close()
    signal = device.new_signal()
    signal.close()
    for use in (signal.close, lambda: signal.value, lambda: signal.set(1)):
        with pytest.raises(UseAfterFree):
            use()


@pytest.mark.parametrize("nbytes", [0, 1, 64, 4096, 65535, 65536, 1 << 20])
def test_memory_is_aligned_and_does_not_overlap(device: CpuDevice, nbytes: int) -> None:
    buffers = [device.alloc(nbytes) for _ in range(9)]
    starts = sorted(buffer.gpu_va for buffer in buffers)
    np.testing.assert_array_equal(np.array(starts) % 64, 0)
    np.testing.assert_array_less(max(nbytes, 1) - 1, np.diff(starts))
    for value, buffer in enumerate(buffers):
        buffer.view()[:] = bytes([value]) * nbytes
    for value, buffer in enumerate(buffers):
        np.testing.assert_equal(bytes(buffer.view()), bytes([value]) * nbytes)


def test_impossible_allocations(device: CpuDevice) -> None:
    with pytest.raises(OutOfMemory) as caught:
        device.alloc(1 << 60)
    check(caught.value.requested >= 1 << 60)
    for wrong in (-1, 1.5, "8"):
        with pytest.raises(BadArgument):
            device.alloc(wrong)


def test_host_memory_is_wrapped_without_a_copy(device: CpuDevice) -> None:
    array = np.arange(10, dtype=np.int64).reshape(2, 5)
    buffer = device.wrap(memoryview(array))
    np.testing.assert_equal(buffer.gpu_va, array.__array_interface__["data"][0])
    device.launch(device.load(kernel("bump")), (buffer, 100), 10)
    np.testing.assert_array_equal(array.ravel(), np.arange(10) + 100)
    with pytest.raises(BadArgument):
        device.wrap(memoryview(array.T))


def test_read_only_memory_is_marked(device: CpuDevice) -> None:
    buffer = device.wrap(memoryview(bytes(range(16))))
    check(buffer.readonly)
    check(buffer.view().readonly)
    with pytest.raises(BadArgument):
        device.copy_in(buffer, memoryview(bytes(16)))
    with pytest.raises(BadArgument):
        device.copy_queue().copy(buffer, device.alloc(16), 16)


def test_copies_in_and_out(device: CpuDevice) -> None:
    source = np.arange(24, dtype=np.float32).reshape(4, 6).T
    buffer, back = device.alloc(100), np.zeros((6, 4), np.float32)
    device.copy_in(buffer, memoryview(source))
    device.copy_out(memoryview(back), buffer)
    np.testing.assert_array_equal(back, source)
    for call in (
        lambda: device.copy_in(buffer, memoryview(bytes(101))),
        lambda: device.copy_out(memoryview(bytearray(101)), buffer),
        lambda: device.copy_out(memoryview(bytes(4)), buffer),
    ):
        with pytest.raises(BadArgument):
            call()


def test_mapping_to_another_device(device: CpuDevice) -> None:
    buffer = device.alloc(8)
    with open_device() as other:
        np.testing.assert_equal(buffer.map_to(other), buffer.gpu_va)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"arch": "gfx1100"}, Unsupported),
        ({"image": b""}, MalformedInput),
        ({"entry": 1 << 20}, MalformedInput),
        ({"entry": -1}, MalformedInput),
        ({"data_offset": 8}, MalformedInput),
        ({"resources": Resources(vendor=b"?")}, MalformedInput),
        ({"resources": Resources(vendor=b"\xff" * 9)}, MalformedInput),
        ({"resources": Resources(scratch_bytes=-1)}, MalformedInput),
        ({"resources": Resources(scratch_bytes=1 << 50)}, MalformedInput),
        ({"resources": Resources(block=2)}, Unsupported),
        ({"resources": Resources(shared_bytes=1)}, Unsupported),
        ({"fixups": (Fixup(1 << 20, "memcpy"),)}, MalformedInput),
        ({"fixups": (Fixup(0, "no_such_function_anywhere"),)}, NotFound),
    ],
)
def test_binaries_that_cannot_be_loaded(
    device: CpuDevice, change: dict[str, object], error: type[DeviceError]
) -> None:
    good = kernel("bump")
    facts = {name: getattr(good, name) for name in good.__dataclass_fields__}
    world = device.world
    check(isinstance(world, LinuxWorld))
    before = world.maps
    with pytest.raises(error):
        device.load(Binary(**{**facts, **change}))
    np.testing.assert_equal(world.maps, before)


def _mappings() -> list[tuple[int, int, str]]:
    """(start, end, rights) of every mapping of this process, as the kernel lists them."""
    with open("/proc/self/maps") as maps:
        rows = [line.split()[:2] for line in maps]
    return [(*(int(end, 16) for end in span.split("-")), rights) for span, rights in rows]


def test_code_is_never_writable_and_executable(device: CpuDevice) -> None:
    binary = kernel("bump")  # compiled before: the compiler's library is not what is looked at
    before = {row for row in _mappings() if "w" in row[2] and "x" in row[2]}
    program = device.load(binary)
    rows = _mappings()
    found = [rights for start, end, rights in rows if start <= program.gpu_va < end]
    np.testing.assert_equal(found, ["r-xp"])
    both_rights = {row for row in rows if "w" in row[2] and "x" in row[2]}
    np.testing.assert_equal(both_rights, before)


def test_a_closed_device_refuses_work() -> None:
    device = open_device()
    program, buffer = device.load(kernel("bump")), int64s(device, [1])
    view = buffer.view()
    device.close()
    device.close()
    np.testing.assert_equal(bytes(view), (1).to_bytes(8, "little"))
    for use in (
        lambda: device.alloc(1),
        lambda: device.load(kernel("bump")),
        lambda: device.launch(program, (buffer, 1), 1),
        lambda: device.new_signal(),
        lambda: device.set_threads(2),
        lambda: device.compute_queue().barrier().submit(),
    ):
        with pytest.raises(UseAfterFree):
            use()


def _use_everything(device: CpuDevice, count: int) -> None:
    programs = [device.load(kernel("bump", scratch_bytes=5000)) for _ in range(count)]
    buffers: list[Buffer] = [device.alloc(size) for size in (8, 70_000) for _ in range(count)]
    signals = [device.new_signal() for _ in range(count)]
    graphs = []
    for index, signal in enumerate(signals):
        queue = device.compute_queue().exec(programs[index], (buffers[index], 1))
        graphs.append(queue.signal(signal, 1).bind())
        graphs[-1].replay()
        device.compute_queue().wait(signal, 1).barrier().timestamp(signal).submit()
        device.compute_queue().wait(signal, 2).submit()
        signal.set(2)
    device.synchronize()
    for thing in (*graphs, *programs, *signals):
        thing.close()
    for buffer in buffers:
        buffer.free()


@both
def test_everything_returns_to_the_baseline(native: bool) -> None:
    with open_device(2, native=native) as device:
        world = device.world
        if not isinstance(world, LinuxWorld):
            raise TypeError(world)
        _use_everything(device, 32)
        device.trim()
        live, maps, mapped = device.memory_stats().live, world.maps, world.mapped_bytes
        fds = len(os.listdir("/proc/self/fd"))
        _use_everything(device, 17)
        device.trim()
        np.testing.assert_equal(device.memory_stats().live, live)
        np.testing.assert_equal((world.maps, world.mapped_bytes), (maps, mapped))
        np.testing.assert_equal((len(os.listdir("/proc/self/fd")), world.fds), (fds, 0))
    np.testing.assert_equal((world.maps, world.mapped_bytes), (0, 0))


def test_what_is_dropped_is_freed_too(device: CpuDevice) -> None:
    live = device.memory_stats().live
    device.new_signal()
    device.alloc(8)
    device.load(kernel("bump"))
    np.testing.assert_equal(device.memory_stats().live, live)


def test_devices_open_and_close_without_a_leak() -> None:
    world = LinuxWorld()
    from drivers.choice import choose
    from drivers.cpu import open_cpu

    for _ in range(3):
        device = open_cpu(world, choose({"CPU_THREADS": "3"}), None)
        device.alloc(100)
        device.close()
        np.testing.assert_equal((world.maps, world.fds), (0, 0))
    np.testing.assert_equal(device.arch, ARCH)
