"""Engines that take their time: the board's clock passes, and the host works beside them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from boards.amd.cp.engine_types import Host
from boards.amd.cp.engines import Engines, _Running
from boards.amd.kfd.world import BoardWorld
from boards.amd.machine import Options, open_board
from boards.machine.clock import Clock
from drivers.amd.device import AmdDevice
from drivers.amd.kfd.session import close_session
from drivers.world.foreign import ForeignWorld
from tests.boards.driver_harness import open_on
from tests.support import check

NS_PER_S = 1_000_000_000
COPIES = ("COPY_LINEAR", "CONST_FILL")


@dataclass(eq=False)
class Pace:
    """How long work takes, and what was seen of it. Nothing takes time while `clock` is None."""

    kernel_s: float = 0.0
    copy_s: float = 0.0
    """Of one packet of a copy engine that copies or fills."""
    clock: Clock | None = None
    kernels: int = 0
    emptied: list[int] = field(default_factory=list)
    """Kernels that had run each time when a compute queue was found with nothing to do."""
    busy: dict[int, int] = field(default_factory=dict)
    """Until when a queue is at work, in nanoseconds."""


class SlowEngines(Engines):
    """Every dispatch and every copy stops its queue for a while."""

    def __init__(self, host: Host, pace: Pace) -> None:
        super().__init__(host)
        self.pace = pace

    def _step(self, queue_id: int, running: _Running) -> bool:
        pace, clock = self.pace, self.pace.clock
        if clock is None:
            return super()._step(queue_id, running)
        if pace.busy.get(queue_id, 0) > clock.now_ns():
            return False
        context, taken_s = running.context, 0.0
        before, copies = context.waves.data, context.spec.kind == "sdma"
        moved = super()._step(queue_id, running)
        if copies and moved and context.name in COPIES:
            taken_s = pace.copy_s
        elif context.waves.data is not before:  # dispatches take turns with two of them
            taken_s, pace.kernels = pace.kernel_s, pace.kernels + 1
        if taken_s:
            pace.busy[queue_id] = clock.now_ns() + int(taken_s * NS_PER_S)
            clock.alarm(pace.busy[queue_id])
        elif not copies and running.rung is None and running.queue.idle:
            pace.emptied.append(pace.kernels)
        return moved


@contextmanager
def slow_device(
    chip: str, queue: str, pace: Pace, **environ: str
) -> Iterator[tuple[BoardWorld, AmdDevice]]:
    """A device over KFD whose engines take their time from now on; nothing is found at the end."""
    options = Options(engines=partial(SlowEngines, pace=pace))
    board = open_board(chip, vram_bytes=256 << 20, options=options)
    world = ForeignWorld(board)
    with open_on(world, queue, **environ) as device:
        pace.clock = board.hardware.clock
        yield board, device
        pace.clock = None
    close_session(world)
    check(not board.violations, f"{board.violations}")
