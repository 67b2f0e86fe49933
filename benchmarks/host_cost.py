"""What a launch costs the host: a driver in front of plain memory, over any interface of a board.

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
from typing import Any, Protocol

from boards.front import OnBoard, power_on
from boards.setup import Setup
from boards.vendors import iface_of, vendor_of
from drivers.base.contracts import Buffer, Param
from drivers.base.errors import Unsupported
from drivers.kinds import BY_NAME, Kind, named

LAUNCH_GOAL_US, REPLAY_GOAL_US, COPY_GOAL_US = 5.0, 0.5, 15.0
KERNELS = 100
"""Of the replayed graph."""
CALLS, SAMPLES = 500, 41
BUFFER_BYTES = 4096
TITLE = "host cost of a launch, processor time; rings and doorbells are plain memory"


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
    """Median over samples of the mean processor time of one call, which other programs do not add
    to."""
    repeats, taken = range(calls), []
    operation()
    gc.collect()
    gc.disable()
    try:
        for _ in range(SAMPLES):
            start_s = time.process_time()
            for _ in repeats:
                operation()
            taken.append((time.process_time() - start_s) / calls)
    finally:
        gc.enable()
    return statistics.median(taken) * 1e6


class Unread(Protocol):
    """A device whose queues are not read, made by its vendor's package."""

    def staged(self, buffer: Buffer, host: memoryview) -> Callable[[], None]:
        """What copies to a buffer through staging; nothing is waited for."""

    def close(self) -> None:
        """Free what only this needed."""


def kind_of(setup: Setup) -> Kind:
    """The kind of device that is measured. Raises: ValueError; Unsupported where it cannot be."""
    kind = BY_NAME[vendor_of(setup.chip).device]
    if not kind.unread or not kind.smoke:
        raise Unsupported(f"{kind.name}: no way is known to leave its queues unread")
    return kind


@contextmanager
def alone(setup: Setup) -> Iterator[tuple[OnBoard, Unread]]:
    """A device whose queues are not read. Raises: ValueError for a chip that is no board."""
    unread = named(kind_of(setup).unread)
    with power_on(setup).open() as device:
        left = unread(device)
        try:
            yield device, left
        finally:
            left.close()


def measure(setup: Setup) -> list[Cost]:
    """A launch of a kernel with three buffers, the share of one in a replayed graph, a copy."""
    kind = "" if not vendor_of(setup.chip).aql else ", AQL" if setup.aql else ", PM4"
    with alone(setup) as (device, unread):
        code = named(kind_of(setup).smoke)("smoke", device.arch)
        program, lanes = device.load(code), code.resources.block
        buffers = [device.alloc(BUFFER_BYTES) for _ in range(3)]
        arguments: list[Any] = [*buffers, lanes]
        launch = median_us(lambda: device.launch(program, arguments, 1), CALLS)
        queue = device.compute_queue()
        for _ in range(KERNELS):
            queue.exec(program, [Param(0), buffers[1], buffers[2], lanes])
        graph = queue.bind()
        values = [[buffers[0]], [buffers[1]]]
        turn = itertools.cycle(values).__next__
        replay = median_us(lambda: graph.replay(values[0]), CALLS) / KERNELS
        patched = median_us(lambda: graph.replay(turn()), CALLS) / KERNELS
        graph.close()
        host = memoryview(bytearray(BUFFER_BYTES))
        copy = median_us(unread.staged(buffers[0], host), CALLS)
    return [
        Cost(f"launch, three buffers{kind}", launch, LAUNCH_GOAL_US),
        Cost(f"kernel of a graph of {KERNELS}{kind}", replay, REPLAY_GOAL_US),
        Cost(f"... its first buffer changed{kind}", patched, REPLAY_GOAL_US),
        Cost(f"{BUFFER_BYTES} bytes through staging{kind}", copy, COPY_GOAL_US),
    ]


def table(setup: Setup, costs: Sequence[Cost]) -> str:
    """What `bench.py --host-cost` prints."""
    where = " ".join(filter(None, (setup.chip, iface_of(setup), setup.dma)))
    return "\n".join([f"{TITLE} (board {where})", *(cost.line() for cost in costs)])


def report(setup: Setup, costs: Sequence[Cost]) -> dict[str, object]:
    """What --json writes."""
    rows = [{**asdict(cost), "met": cost.met} for cost in costs]
    met = {"board": setup.chip, "iface": iface_of(setup), "dma": setup.dma}
    return {**met, "note": TITLE, "rows": rows}
