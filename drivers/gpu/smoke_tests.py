"""Tests that any GPU passes whose queues work: signals, copies, a kernel, a graph.

Every result is compared with what the host computes.
"""

from __future__ import annotations

import numpy as np

from drivers.base.contracts import Buffer, Device, Firmware, Param
from drivers.gpu.smoke_outcome import GUARD_BYTES, HINT, ITEMS, KIND, Wrong, pattern, same


def filled(device: Device, data: bytes) -> Buffer:
    """A buffer with these bytes."""
    buffer = device.alloc(len(data))
    device.copy_in(buffer, memoryview(data))
    return buffer


def read(device: Device, buffer: Buffer) -> bytearray:
    """The bytes of a buffer."""
    back = bytearray(buffer.nbytes)
    device.copy_out(memoryview(back), buffer)
    return back


def ring(device: Device) -> str:
    """The compute queue writes a time, then a value and its time."""
    first, second = device.new_signal(), device.new_signal()
    device.compute_queue().timestamp(first).signal(second, 1).submit()
    second.wait(1)
    device.synchronize()
    if second.value != 1 or not 0 < first.timestamp_ns <= second.timestamp_ns:
        times = f"{first.timestamp_ns} and {second.timestamp_ns} ns"
        raise Wrong(f"the signal is {second.value}, the times {times}", hint=HINT)
    return ""


def copies(device: Device, nbytes: int, memory: str = "VRAM") -> str:
    """From the host to the device's memory, inside it, and back, with bytes behind that must stay.

    `memory` is what the device's is called.
    """
    data, guard = pattern(nbytes, nbytes), pattern(nbytes + GUARD_BYTES, 1)
    first, second = filled(device, guard), filled(device, guard)
    device.copy_in(first, memoryview(data))
    signal = device.new_signal()
    device.copy_queue().copy(second, first, nbytes).signal(signal, 1).submit()
    signal.wait(1)
    for buffer, name in ((first, f"host to {memory}"), (second, f"{memory} to {memory}")):
        same(name, read(device, buffer), data + guard[nbytes:])
        buffer.free()
    return f"host to {memory} to {memory} to host"


def _sum(*parts: bytes) -> bytes:
    """32-bit sums, as the kernel computes them."""
    total = np.zeros(ITEMS, np.uint32)
    for part in parts:
        total += np.frombuffer(part, np.uint32, ITEMS)
    return total.tobytes()


def _operands(device: Device) -> tuple[bytes, bytes, bytes, list[Buffer]]:
    """Two operands, what lies behind the result, and buffers of the three and one more."""
    a, b = pattern(4 * ITEMS, 5), pattern(4 * ITEMS, 6)
    guard = pattern(4 * ITEMS + GUARD_BYTES, 7)
    return a, b, guard[4 * ITEMS :], [filled(device, data) for data in (a, b, guard, guard)]


def kernel(device: Device, firmware: Firmware) -> str:
    """c = a + b, as eager work launches it."""
    code = firmware(KIND, device.arch)
    program, block = device.load(code), code.resources.block
    groups = -(-ITEMS // block)
    a, b, behind, buffers = _operands(device)
    device.launch(program, [*buffers[:3], ITEMS], groups)
    same("sums", read(device, buffers[2]), _sum(a, b) + behind)
    return f"{groups} workgroups of {block}"


def graph(device: Device, firmware: Firmware) -> str:
    """d = (a + b) + b and then (b + b) + b, recorded once and replayed with another argument."""
    code = firmware(KIND, device.arch)
    program, grid = device.load(code), (-(-ITEMS // code.resources.block), 1, 1)
    a, b, behind, buffers = _operands(device)
    queue = device.compute_queue()
    queue.exec(program, [Param(0), *buffers[1:3], ITEMS], grid).barrier()
    graph = queue.exec(program, [*buffers[2:0:-1], buffers[3], ITEMS], grid).bind()
    for replayed, first in ((buffers[0], a), (buffers[1], b)):
        graph.replay([replayed])
        same("sums of a graph", read(device, buffers[3]), _sum(first, b, b) + behind)
    graph.close()
    return "2 kernels, replayed twice"
