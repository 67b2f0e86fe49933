"""Does every engine of an AMD GPU do its work: rings, copies, a kernel. For `probe --smoke`.

Everything runs on devices that are opened and closed here, and every result is compared with what
the host computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Final

from drivers.amd.device import AmdDevice
from drivers.amd.opening import open_amd
from drivers.amd.sdma_ring import SdmaRing
from drivers.base.contracts import Firmware, World
from drivers.base.pci import StateStore
from drivers.choice import Choice
from drivers.gpu import smoke_tests as tests
from drivers.gpu.smoke_outcome import COPY_BYTES, GUARD_BYTES, Outcome, Test, pattern, same, timed

ENGINE_BYTES: Final = 4099
ROUND_TRIPS: Final = "round trips"
QUEUES: Final = (("PM4", False), ("AQL", True))


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
                    yield timed(world, test, partial(_counted, device, run))


def _open(
    world: World, choice: Choice, state: StateStore | None, stack: ExitStack,
    opened: list[AmdDevice],
) -> str:  # fmt: skip
    device = stack.enter_context(open_amd(world, choice, state=state))
    opened.append(device)
    remote = device.iface.remote
    trips = f"{remote.trips} {ROUND_TRIPS} in all" if remote is not None else ""
    return ", ".join(filter(None, (device.name, device.arch, device.iface.opened, trips)))


def _counted(device: AmdDevice, test: Test) -> str:
    """A test, and the round trips that it took, where there is a cable."""
    remote = device.iface.remote
    if remote is None:
        return test()
    before = remote.trips
    said = test()
    return ", ".join(filter(None, (said, f"{remote.trips - before} {ROUND_TRIPS}")))


def _tests(
    device: AmdDevice, name: str, firmware: Firmware, *, with_copies: bool
) -> Iterator[tuple[str, Test]]:
    yield f"{name} ring", partial(tests.ring, device)
    yield f"{name} kernel", partial(tests.kernel, device, firmware)
    yield f"{name} graph", partial(tests.graph, device, firmware)
    if not with_copies:
        return
    node = device.node
    memory = "GTT" if node.unified else "VRAM"
    for nbytes in COPY_BYTES:
        yield f"copies of {nbytes} bytes", partial(tests.copies, device, nbytes, memory)
    with ExitStack() as stack:
        rings: dict[int, SdmaRing] = {}
        if device.iface.queues_per_engine == 1:  # the device's own is the first engine's
            rings[0] = device.copies
        for number in range(len(rings), node.sdma_engines + node.sdma_xgmi_engines):
            yield f"SDMA{number} queue", partial(_engine_open, device, number, stack, rings)
        for number, ring in rings.items():
            yield f"SDMA{number} copy", partial(_engine_copy, device, ring, number)


def _engine_open(
    device: AmdDevice, number: int, stack: ExitStack, rings: dict[int, SdmaRing]
) -> str:
    rings[number] = stack.enter_context(device.engine_ring(number))
    return ""


def _engine_copy(device: AmdDevice, ring: SdmaRing, number: int) -> str:
    """One engine copies an odd number of bytes inside VRAM."""
    data, guard = pattern(ENGINE_BYTES, number), pattern(ENGINE_BYTES + GUARD_BYTES, 1)
    source, target = tests.filled(device, data), tests.filled(device, guard)
    device.synchronize()
    with ring.lock:
        ring.copy(dst=target.gpu_va, src=source.gpu_va, nbytes=ENGINE_BYTES)
        mark = ring.put
    device.waits.wait_ring(ring, mark)
    same(f"SDMA{number}", tests.read(device, target), data + guard[ENGINE_BYTES:])
    return f"{ENGINE_BYTES} bytes"
