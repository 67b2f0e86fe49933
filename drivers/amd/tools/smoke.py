"""Does every engine of an AMD GPU do its work: rings, copies, a kernel. For `probe --smoke`.

Everything runs on devices that are opened and closed here, and every result is compared with what
the host computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from drivers.amd.device import AmdDevice
from drivers.amd.memory import AmdBuffer
from drivers.amd.opening import open_amd
from drivers.amd.sdma_ring import SdmaRing
from drivers.base.contracts import Firmware, Param, World
from drivers.base.errors import DeviceError
from drivers.base.pci import StateStore
from drivers.choice import Choice

COPY_BYTES: Final = (1, 3, 64, 4095, 4097, (1 << 20) + 13)
GUARD_BYTES: Final = 64
"""Behind everything that is written; they must stay as they were."""
ENGINE_BYTES: Final = 4099
ITEMS: Final = 1000
"""Of the kernel: not a multiple of a workgroup."""
KIND: Final = "smoke"
"""The Firmware that is asked for: kernel(a, b, c, n), c[i] = a[i] + b[i] of 32-bit integers."""
QUEUES: Final = (("PM4", False), ("AQL", True))
_HINT: Final = "See the kernel log (dmesg) for what the GPU reported"
_SHOWN_BYTES: Final = 8


class Wrong(DeviceError):
    """An engine answered, and the result is wrong."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One test: what it was, whether it passed, how long it took, and why not."""

    name: str
    ok: bool
    seconds: float
    detail: str = ""


Test = Callable[[], str]
"""Returns what there is to say of it. Raises: DeviceError."""


def smoke(
    world: World, choice: Choice, firmware: Firmware, state: StateStore | None = None
) -> Iterator[Outcome]:
    """Every test of one GPU, each as soon as it is done."""
    for name, aql in QUEUES:
        with ExitStack() as stack:
            opened: list[AmdDevice] = []
            begin = partial(_open, world, replace(choice, aql=aql), state, stack, opened)
            outcome = timed(world, f"open, {name} queue", begin)
            yield outcome
            for device in opened:
                for test, run in _tests(device, name, firmware, with_copies=not aql):
                    yield timed(world, test, run)


def timed(world: World, name: str, test: Test) -> Outcome:
    """Run a test."""
    start_s = world.monotonic_s()
    try:
        detail, ok = test(), True
    except DeviceError as error:
        detail, ok = f"{type(error).__name__}: {error}", False
    return Outcome(name, ok, world.monotonic_s() - start_s, detail)


def _open(
    world: World, choice: Choice, state: StateStore | None, stack: ExitStack,
    opened: list[AmdDevice],
) -> str:  # fmt: skip
    device = stack.enter_context(open_amd(world, choice, state=state))
    opened.append(device)
    return ", ".join(filter(None, (device.name, device.arch, device.iface.opened)))


def _tests(
    device: AmdDevice, name: str, firmware: Firmware, *, with_copies: bool
) -> Iterator[tuple[str, Test]]:
    yield f"{name} ring", partial(_ring, device)
    yield f"{name} kernel", partial(_kernel, device, firmware)
    yield f"{name} graph", partial(_graph, device, firmware)
    if not with_copies:
        return
    for nbytes in COPY_BYTES:
        yield f"copies of {nbytes} bytes", partial(_copies, device, nbytes)
    node = device.node
    with ExitStack() as stack:
        rings: dict[int, SdmaRing] = {}
        if device.iface.queues_per_engine == 1:  # the device's own is the first engine's
            rings[0] = device.copies
        for number in range(len(rings), node.sdma_engines + node.sdma_xgmi_engines):
            yield f"SDMA{number} queue", partial(_engine_open, device, number, stack, rings)
        for number, ring in rings.items():
            yield f"SDMA{number} copy", partial(_engine_copy, device, ring, number)


def pattern(nbytes: int, seed: int) -> bytes:
    """Bytes in which neighbours and distant places differ."""
    made: bytes = np.random.default_rng(seed).bytes(nbytes)
    return made


def same(what: str, got: bytes | bytearray, want: bytes) -> None:
    """Raises: Wrong, with the first byte that differs."""
    if got == want:
        return
    pairs = enumerate(zip(got, want, strict=False))
    at = next((n for n, (a, b) in pairs if a != b), min(len(got), len(want)))
    is_, expected = (data[at : at + _SHOWN_BYTES].hex() for data in (got, want))
    raise Wrong(
        f"{what}: byte {at} of {len(want)} on is {is_}, not {expected}", hint=_HINT
    )  # fmt: skip


def _filled(device: AmdDevice, data: bytes) -> AmdBuffer:
    buffer = device.alloc(len(data))
    device.copy_in(buffer, memoryview(data))
    return buffer


def _read(device: AmdDevice, buffer: AmdBuffer) -> bytearray:
    back = bytearray(buffer.nbytes)
    device.copy_out(memoryview(back), buffer)
    return back


def _ring(device: AmdDevice) -> str:
    """The compute queue writes a time, then a value and its time."""
    first, second = device.new_signal(), device.new_signal()
    device.compute_queue().timestamp(first).signal(second, 1).submit()
    second.wait(1)
    device.synchronize()
    if second.value != 1 or not 0 < first.timestamp_ns <= second.timestamp_ns:
        times = f"{first.timestamp_ns} and {second.timestamp_ns} ns"
        raise Wrong(f"the signal is {second.value}, the times {times}", hint=_HINT)
    return ""


def _copies(device: AmdDevice, nbytes: int) -> str:
    """Host to VRAM to VRAM to host, with bytes behind that must stay."""
    data, guard = pattern(nbytes, nbytes), pattern(nbytes + GUARD_BYTES, 1)
    first, second = _filled(device, guard), _filled(device, guard)
    device.copy_in(first, memoryview(data))
    signal = device.new_signal()
    device.copy_queue().copy(second, first, nbytes).signal(signal, 1).submit()
    signal.wait(1)
    for buffer, name in ((first, "host to VRAM"), (second, "VRAM to VRAM")):
        same(name, _read(device, buffer), data + guard[nbytes:])
        buffer.free()
    return "host to VRAM to VRAM to host"


def _sum(*parts: bytes) -> bytes:
    """32-bit sums, as the kernel computes them."""
    total = np.zeros(ITEMS, np.uint32)
    for part in parts:
        total += np.frombuffer(part, np.uint32, ITEMS)
    return total.tobytes()


def _operands(device: AmdDevice) -> tuple[bytes, bytes, bytes, list[AmdBuffer]]:
    """Two operands, what lies behind the result, and buffers of the three and one more."""
    a, b = pattern(4 * ITEMS, 5), pattern(4 * ITEMS, 6)
    guard = pattern(4 * ITEMS + GUARD_BYTES, 7)
    return a, b, guard[4 * ITEMS :], [_filled(device, data) for data in (a, b, guard, guard)]


def _kernel(device: AmdDevice, firmware: Firmware) -> str:
    """c = a + b, as eager work launches it."""
    program = device.load(firmware(KIND, device.arch))
    groups = -(-ITEMS // program.kernel.block)
    a, b, behind, buffers = _operands(device)
    device.launch(program, [*buffers[:3], ITEMS], groups)
    same("sums", _read(device, buffers[2]), _sum(a, b) + behind)
    return f"{groups} workgroups of {program.kernel.block}"


def _graph(device: AmdDevice, firmware: Firmware) -> str:
    """d = (a + b) + b and then (b + b) + b, recorded once and replayed with another argument."""
    program = device.load(firmware(KIND, device.arch))
    grid = (-(-ITEMS // program.kernel.block), 1, 1)
    a, b, behind, buffers = _operands(device)
    queue = device.compute_queue()
    queue.exec(program, [Param(0), *buffers[1:3], ITEMS], grid).barrier()
    graph = queue.exec(program, [*buffers[2:0:-1], buffers[3], ITEMS], grid).bind()
    for replayed, first in ((buffers[0], a), (buffers[1], b)):
        graph.replay([replayed])
        same("sums of a graph", _read(device, buffers[3]), _sum(first, b, b) + behind)
    graph.close()
    return "2 kernels, replayed twice"


def _engine_open(
    device: AmdDevice, number: int, stack: ExitStack, rings: dict[int, SdmaRing]
) -> str:
    rings[number] = stack.enter_context(device.engine_ring(number))
    return ""


def _engine_copy(device: AmdDevice, ring: SdmaRing, number: int) -> str:
    """One engine copies an odd number of bytes inside VRAM."""
    data, guard = pattern(ENGINE_BYTES, number), pattern(ENGINE_BYTES + GUARD_BYTES, 1)
    source, target = _filled(device, data), _filled(device, guard)
    device.synchronize()
    with ring.lock:
        ring.copy(dst=target.gpu_va, src=source.gpu_va, nbytes=ENGINE_BYTES)
        mark = ring.put
    device.waits.wait_ring(ring, mark)
    same(f"SDMA{number}", _read(device, target), data + guard[ENGINE_BYTES:])
    return f"{ENGINE_BYTES} bytes"
