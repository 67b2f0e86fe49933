"""What a launch costs the host: the AMD driver, through KFD or over PCI, in front of plain memory.

Rings and doorbells are plain memory, and everything counts as done at once. What is
left is the driver's own work in Python: arguments checked, packets written, the doorbell stored.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

from boards.front import Setup, power_on
from compilers.amd.smoke import BLOCK, firmware
from drivers.amd.device import AmdDevice
from drivers.amd.hwqueue import store64
from drivers.amd.iface import Iface
from drivers.amd.pci.hardware_queue import BAR_REGISTERS, DOORBELL_BAR, DOORBELL_BYTES, ringer
from drivers.amd.ring import Ring
from drivers.amd.staging import Staging
from drivers.base.contracts import Param
from drivers.base.region import MemoryRegion

LAUNCH_GOAL_US, REPLAY_GOAL_US, COPY_GOAL_US = 5.0, 0.5, 15.0
KERNELS = 100
"""Of the replayed graph."""
CALLS, SAMPLES = 500, 41
EVERYTHING = (1 << 31) - 1
"""How far every queue has come: further than it will be given work."""
BUFFER_BYTES = 4096
BAR_BYTES = 1 << 20
TITLE = "host cost of a launch; rings and doorbells are plain memory"


@dataclass(frozen=True, slots=True)
class Cost:
    """One measured row."""

    name: str
    median_us: float
    goal_us: float

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        return self.median_us <= self.goal_us

    def line(self) -> str:
        """The row as the table shows it."""
        verdict = "met" if self.met else "missed"
        return f"{self.name:<34}{self.median_us:>9.3f} us   goal {self.goal_us:g} us: {verdict}"


def median_us(operation: Callable[[], object], calls: int) -> float:
    """Median over samples of the mean time of one call."""
    repeats, taken = range(calls), []
    operation()
    gc.collect()
    gc.disable()
    try:
        for _ in range(SAMPLES):
            start_s = time.perf_counter()
            for _ in repeats:
                operation()
            taken.append((time.perf_counter() - start_s) / calls)
    finally:
        gc.enable()
    return statistics.median(taken) * 1e6


class PlainBars:
    """BARs that are plain memory. A doorbell's store as a driver over PCI makes it."""

    trace = None

    def __init__(self) -> None:
        self.memory = {number: bytearray(BAR_BYTES) for number in (DOORBELL_BAR, BAR_REGISTERS)}

    def bar(self, number: int) -> MemoryRegion:
        """A BAR, which can be stored to without a call."""
        return MemoryRegion(self.memory[number])


@contextmanager
def alone(setup: Setup) -> Iterator[tuple[AmdDevice, PlainBars]]:
    """A device whose queues are not read. Raises: ValueError for a chip that is no board."""
    bars = PlainBars()
    with power_on(setup).open() as device:
        for number, ring in enumerate((device.compute, device.copies)):
            _leave_unread(ring, _doorbell(device.iface, ring, bars, number))
        yield device, bars


def _doorbell(iface: Iface, ring: Ring, bars: PlainBars, number: int) -> Callable[[int], None]:
    """The driver's own way to ring, but of plain memory."""
    if iface.name == "KFD":
        return store64(bars.bar(DOORBELL_BAR), number * DOORBELL_BYTES)
    bare: Any = SimpleNamespace(session=bars, mmio=SimpleNamespace(bus=bars), flush_writes=None)
    memory: Any = ring.hw.ring
    return ringer(bare, number, memory)


def _leave_unread(ring: Any, doorbell: Callable[[int], None]) -> None:
    """The hardware hears nothing more of a ring, which has done everything it will be given."""
    ring.ring_doorbell, ring._cell[0] = doorbell, EVERYTHING


def measure(setup: Setup) -> list[Cost]:
    """A launch of a kernel with three buffers, the share of one in a replayed graph, a copy."""
    kind = "AQL" if setup.aql else "PM4"
    with alone(setup) as (device, _):
        program = device.load(firmware("smoke", setup.chip))
        buffers = [device.alloc(BUFFER_BYTES) for _ in range(3)]
        arguments: list[Any] = [*buffers, BLOCK]
        launch = median_us(lambda: device.launch(program, arguments, 1), CALLS)
        queue = device.compute_queue()
        for _ in range(KERNELS):
            queue.exec(program, [Param(0), buffers[1], buffers[2], BLOCK])
        graph = queue.bind()
        values = [[buffers[0]], [buffers[1]]]
        turn = itertools.cycle(values).__next__
        replay = median_us(lambda: graph.replay(values[0]), CALLS) / KERNELS
        patched = median_us(lambda: graph.replay(turn()), CALLS) / KERNELS
        graph.close()
        staging, host = Staging(device.iface), memoryview(bytearray(BUFFER_BYTES))
        place = buffers[0].gpu_va
        copy = median_us(
            lambda: staging.copy_in(device.copies, place, host, lambda ring, mark: None), CALLS
        )
        staging.close()
    return [
        Cost(f"launch, three buffers, {kind}", launch, LAUNCH_GOAL_US),
        Cost(f"kernel of a graph of {KERNELS}, {kind}", replay, REPLAY_GOAL_US),
        Cost(f"... its first buffer changed, {kind}", patched, REPLAY_GOAL_US),
        Cost(f"{BUFFER_BYTES} bytes through staging, {kind}", copy, COPY_GOAL_US),
    ]


def table(setup: Setup, costs: Sequence[Cost]) -> str:
    """What `bench.py --host-cost` prints."""
    where = " ".join(filter(None, (setup.chip, setup.iface, setup.dma)))
    return "\n".join([f"{TITLE} (board {where})", *(cost.line() for cost in costs)])


def report(setup: Setup, costs: Sequence[Cost]) -> dict[str, object]:
    """What --json writes."""
    rows = [{**asdict(cost), "met": cost.met} for cost in costs]
    met = {"board": setup.chip, "iface": setup.iface, "dma": setup.dma}
    return {**met, "note": TITLE, "rows": rows}
