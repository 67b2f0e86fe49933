"""What a launch costs the host: the AMD driver in front of a board whose GPU is plain memory.

Rings and doorbells are memory that nobody reads, and everything counts as done at once. What is
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
from typing import Any

import drivers
from boards.amd.machine import Options, open_board
from boards.amd.nobody import Nobody
from boards.amd.world import BoardWorld
from compilers.amd_smoke import BLOCK, firmware
from drivers.amd.device import AmdDevice
from drivers.base.contracts import Param
from drivers.world.foreign import ForeignWorld

LAUNCH_GOAL_US, REPLAY_GOAL_US = 5.0, 0.5
KERNELS = 100
"""Of the replayed graph."""
CALLS, SAMPLES = 500, 41
EVERYTHING = (1 << 31) - 1
"""How far every queue has come: further than it will be given work."""
BUFFER_BYTES = 4096
TITLE = "host cost of a launch; rings and doorbells are memory that nobody reads"


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


@contextmanager
def alone(chip: str, *, aql: bool) -> Iterator[AmdDevice]:
    """A device whose queues nobody reads. Raises: ValueError for a chip that is no board."""
    board = open_board(chip, options=Options(engines=Nobody, plain_doorbells=True))
    machine: Any = board
    environ = {"DEV": "AMD", "AMD_AQL": str(int(aql))}
    device = drivers.open(world=ForeignWorld(machine), environ=environ)
    if not isinstance(device, AmdDevice):
        raise TypeError(f"{device!r} is no AMD GPU")
    with device:
        finish(board, device)
        yield device


def finish(board: BoardWorld, device: AmdDevice) -> None:
    """Let both queues have done everything they will ever be given."""
    process = board.process
    queues = process.queues.by_id.values() if process is not None else ()
    for queue in queues:
        engines = queue.device.engines
        if isinstance(engines, Nobody):
            for ring in (device.compute, device.copies):
                engines.complete(queue.spec.queue_id, ring.progress_va, EVERYTHING)


def measure(chip: str, *, aql: bool) -> list[Cost]:
    """A single launch of a kernel with three buffers, and the share of one in a replayed graph."""
    kind = "AQL" if aql else "PM4"
    with alone(chip, aql=aql) as device:
        program = device.load(firmware("smoke", chip))
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
    return [
        Cost(f"launch, three buffers, {kind}", launch, LAUNCH_GOAL_US),
        Cost(f"kernel of a graph of {KERNELS}, {kind}", replay, REPLAY_GOAL_US),
        Cost(f"... its first buffer changed, {kind}", patched, REPLAY_GOAL_US),
    ]


def table(chip: str, costs: Sequence[Cost]) -> str:
    """What `bench.py --host-cost` prints."""
    return "\n".join([f"{TITLE} (board {chip})", *(cost.line() for cost in costs)])


def report(chip: str, costs: Sequence[Cost]) -> dict[str, object]:
    """What --json writes."""
    rows = [{**asdict(cost), "met": cost.met} for cost in costs]
    return {"board": chip, "note": TITLE, "rows": rows}
