"""Does every engine of an NVIDIA GPU do its work: channels, copies, a kernel, a graph.

For `probe --smoke`. Everything runs on a device that is opened and closed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from drivers.base.contracts import Firmware, World
from drivers.choice import Choice
from drivers.gpu import smoke_tests as tests
from drivers.gpu.smoke_outcome import COPY_BYTES, Outcome, Test, Wrong, timed
from drivers.nv.device import NvDevice
from drivers.nv.nvk.controls import FbInfo
from drivers.nv.opening import open_nv
from drivers.nv.tools.status import memory_kib


def smoke(world: World, choice: Choice, firmware: Firmware) -> Iterator[Outcome]:
    """Every test of one GPU, each as soon as it is done."""
    with ExitStack() as stack:
        opened: list[NvDevice] = []
        yield timed(world, "open", partial(_open, world, choice, stack, opened))
        for device in opened:
            for name, run in _tests(device, firmware):
                yield timed(world, name, run)
    for device in opened:
        yield timed(world, "close", partial(_left, device))


def _open(world: World, choice: Choice, stack: ExitStack, opened: list[NvDevice]) -> str:
    device = stack.enter_context(open_nv(world, choice))
    opened.append(device)
    return f"{device.name}, {device.arch}, driver {device.iface.version}"


def _tests(device: NvDevice, firmware: Firmware) -> Iterator[tuple[str, Test]]:
    yield "memory", partial(_memory, device)
    yield "compute channel", partial(tests.ring, device)
    yield "kernel", partial(tests.kernel, device, firmware)
    yield "graph", partial(tests.graph, device, firmware)
    for nbytes in COPY_BYTES:
        yield f"copies of {nbytes} bytes", partial(tests.copies, device, nbytes)


def _memory(device: NvDevice) -> str:
    """RM's numbers of video memory agree with each other."""
    total, free = memory_kib(device.iface, FbInfo.HEAP_SIZE, FbInfo.HEAP_FREE)
    if not 0 < free <= total:
        raise Wrong(f"{free} KiB of {total} KiB of video memory are free", hint="see dmesg")
    return f"{free / 2**20:.1f} of {total / 2**20:.1f} GiB free"


def _left(device: NvDevice) -> str:
    """Nothing is held by a closed device."""
    iface = device.iface
    if iface.handles or iface.bytes_held:
        raise Wrong(f"{iface.handles} pieces of memory are still held", hint="report it")
    return "nothing is left"
