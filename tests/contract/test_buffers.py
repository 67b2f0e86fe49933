"""Memory on every device: allocation, host views, copies, and what must be refused."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from drivers.base.contracts import Device
from drivers.base.errors import BadArgument, OutOfMemory, Unsupported, UseAfterFree
from tests.contract.arrays import get, put, ramp, refused
from tests.support import check

SIZES = (0, 1, 4, 100, 4096, 70_000, 300_000)


@pytest.mark.parametrize("nbytes", SIZES)
def test_what_is_copied_in_comes_out(device: Device, nbytes: int) -> None:
    data = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
    buffer = device.alloc(nbytes)
    check(buffer.nbytes == nbytes and buffer.device is device, "its size and owner")
    back = np.zeros(nbytes, np.uint8)
    device.copy_in(buffer, memoryview(data))
    device.copy_out(memoryview(back), buffer)
    np.testing.assert_array_equal(back, data)
    buffer.free()


def test_buffers_do_not_overlap(device: Device) -> None:
    buffers = [put(device, ramp(16, 100 * number)) for number in range(8)]
    spans = sorted((buffer.gpu_va, buffer.gpu_va + buffer.nbytes) for buffer in buffers)
    check(all(a[1] <= b[0] for a, b in pairwise(spans)), f"{spans}")
    for number, buffer in enumerate(buffers):
        np.testing.assert_array_equal(get(device, buffer), ramp(16, 100 * number))


def test_a_part_is_copied_to_the_start(device: Device) -> None:
    buffer = put(device, ramp(64))
    device.copy_in(buffer, memoryview(ramp(3, 1000)).cast("B"))
    wanted = ramp(64)
    wanted[:3] = ramp(3, 1000)
    np.testing.assert_array_equal(get(device, buffer), wanted)
    some = np.zeros(5, np.int32)
    device.copy_out(memoryview(some).cast("B"), buffer)
    np.testing.assert_array_equal(some, wanted[:5])


def test_sources_that_are_not_contiguous(device: Device) -> None:
    buffer = device.alloc(40)
    device.copy_in(buffer, memoryview(ramp(20)[::2]))
    np.testing.assert_array_equal(get(device, buffer), ramp(20)[::2])


def test_copies_that_do_not_fit_are_refused(device: Device) -> None:
    buffer = put(device, ramp(4))
    with refused(BadArgument):
        device.copy_in(buffer, memoryview(bytes(17)))
    with refused(BadArgument):
        device.copy_out(memoryview(bytearray(17)), buffer)
    with refused(BadArgument):
        device.copy_out(memoryview(bytes(16)), buffer)  # read-only
    with refused(BadArgument):
        device.copy_out(memoryview(bytearray(32))[::2], buffer)
    np.testing.assert_array_equal(get(device, buffer), ramp(4))


def not_host_memory():
    """What no memoryview is, and one that was released."""
    gone = memoryview(bytearray(4))
    gone.release()
    return [b"abcd", bytearray(4), ramp(1), None, 4, "abcd", [1, 2, 3, 4], gone]


def test_what_is_no_host_memory_is_refused(device: Device) -> None:
    buffer = put(device, ramp(4))
    for memory in not_host_memory():
        kind = UseAfterFree if isinstance(memory, memoryview) else BadArgument
        with refused(kind):
            device.copy_in(buffer, memory)
        with refused(kind):
            device.copy_out(memory, buffer)
        with refused(kind, Unsupported):
            device.wrap(memory)
    rows = np.arange(6, dtype=">i2").reshape(2, 3).T  # its elements are not contiguous: copied
    device.copy_in(buffer, memoryview(rows))
    check(bytes(get(device, buffer))[: rows.nbytes] == rows.tobytes(), "in C order")


def test_a_size_is_an_integer_from_0_on(device: Device) -> None:
    for nbytes in (-1, 1.5, "4", None, True):
        with refused(BadArgument):
            device.alloc(nbytes)


def test_more_than_there_is(device: Device) -> None:
    before = put(device, ramp(8))
    with pytest.raises(OutOfMemory) as caught:
        device.alloc(2 * device.limits.memory_bytes + (1 << 40))
    check(caught.value.requested > device.limits.memory_bytes, "it says how much was asked for")
    np.testing.assert_array_equal(get(device, before), ramp(8))


def test_a_freed_buffer_is_dead(device: Device) -> None:
    buffer, other = put(device, ramp(4)), put(device, ramp(4))
    buffer.free()
    uses = (
        buffer.free, buffer.view, lambda: buffer.gpu_va, lambda: buffer.host,
        lambda: device.copy_in(buffer, memoryview(bytes(4))),
        lambda: device.copy_out(memoryview(bytearray(4)), buffer),
        lambda: device.copy_queue().copy(buffer, other, 4),
        lambda: device.copy_queue().copy(other, buffer, 4),
    )  # fmt: skip
    for use in uses:
        with refused(UseAfterFree):
            use()
    np.testing.assert_array_equal(get(device, other), ramp(4))


def test_memory_comes_back_without_free(device: Device) -> None:
    size = device.limits.memory_bytes // 8 + 1
    if size > 1 << 24:
        size = 1 << 20
    for _ in range(40):
        buffer = device.alloc(size)
        device.copy_in(buffer, memoryview(b"\x11" * 64))
        del buffer


def test_the_host_sees_what_it_says_it_sees(device: Device) -> None:
    buffer = put(device, ramp(32))
    device.synchronize()
    host = buffer.host
    if host is None:
        check(not device.limits.uses_host_memory, "Limits promise a host view")
        with refused(Unsupported):
            buffer.view()
        return
    check(host.nbytes == buffer.nbytes, f"{host.nbytes} bytes of {buffer.nbytes}")
    np.testing.assert_array_equal(np.frombuffer(host, np.int32), ramp(32))
    np.testing.assert_array_equal(np.frombuffer(buffer.view(), np.int32), ramp(32))
    if not host.readonly:
        np.frombuffer(host, np.int32)[:] = ramp(32, 7)
        np.testing.assert_array_equal(get(device, buffer), ramp(32, 7))


def test_wrapped_memory_is_the_host_s(device: Device) -> None:
    array = ramp(65)[1:]  # whole pages it is not
    view = memoryview(array).cast("B")
    if not device.limits.uses_host_memory:
        with refused(Unsupported):
            device.wrap(view)
        return
    buffer = device.wrap(view)
    np.testing.assert_array_equal(get(device, buffer), ramp(64, 1))
    array[:] = ramp(64, 500)
    np.testing.assert_array_equal(get(device, buffer), ramp(64, 500))
    device.copy_in(buffer, memoryview(ramp(64)).cast("B"))
    np.testing.assert_array_equal(array, ramp(64))
    locked = np.frombuffer(bytes(16), np.int32)
    with refused(BadArgument):
        device.copy_in(device.wrap(memoryview(locked).cast("B")), memoryview(bytes(4)))


def test_what_cannot_be_wrapped(device: Device) -> None:
    for memory in (b"bytes", memoryview(bytearray(64))[::2]):
        with refused(BadArgument, Unsupported):
            device.wrap(memory)


def test_a_buffer_is_mapped_to_its_own_device(device: Device) -> None:
    buffer = put(device, ramp(4))
    check(buffer.map_to(device) == buffer.gpu_va, "it is there already")
    buffer.free()
    with refused(UseAfterFree):
        buffer.map_to(device)
