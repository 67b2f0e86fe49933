"""The queues of one process on one GPU: a doorbell runs them until nothing moves."""

from __future__ import annotations

from typing import Protocol

from boards.amd.cp.aql import AqlQueue
from boards.amd.cp.context import Context, Endless, Hung, Progress, WaveMemory, xccs_of
from boards.amd.cp.engine_types import Host, PacketFault, QueueSpec, Space
from boards.amd.cp.pm4 import Pm4Queue
from boards.amd.sdma.engine import SdmaQueue
from boards.amd.wave.types import MemoryFault, Strict, WaveFault

_MAX_STEPS = 20_000_000
_FOREVER = 1 << 62


class Queue(Protocol):
    """A queue of any kind."""

    @property
    def idle(self) -> bool: ...
    @property
    def read_pointer(self) -> int: ...
    def doorbell(self, value: int) -> None: ...
    def step(self) -> Progress: ...


_KINDS: dict[str, type[Pm4Queue] | type[AqlQueue] | type[SdmaQueue]] = {
    "pm4": Pm4Queue,
    "aql": AqlQueue,
    "sdma": SdmaQueue,
}


class _Running:
    """A queue and whether it can still make progress."""

    def __init__(self, context: Context, queue: Queue) -> None:
        self.context, self.queue = context, queue
        self.stopped = False
        self.waiting = False
        self.rung: int | None = None
        """A doorbell that the queue has not read yet."""


class Engines:
    """All queues of a process on a GPU, in turn, one packet each."""

    def __init__(
        self, host: Host, strict: Strict | None = None, max_steps: int = _MAX_STEPS, *,
        copy_bytes_per_s: float = 0.0, late_stamps: bool = False,
    ) -> None:  # fmt: skip
        """`copy_bytes_per_s` is the speed of copy engines, 0 for copies that take no time.

        With `late_stamps` the clock of a RELEASE_MEM is in memory after the next ACQUIRE_MEM, or
        when the queues next run, and values written behind it are there before.
        """
        self.host, self.strict, self.max_steps = host, strict or Strict(), max_steps
        self._late_stamps, self._copy_bytes_per_s = late_stamps, copy_bytes_per_s
        self.hung: set[int] = set()
        """Queues that make no progress: the fault panel puts them here, endless kernels do."""
        self.endless: set[int] = set()
        """Those of them that an endless kernel stopped."""
        self._queues: dict[int, _Running] = {}
        self._signals: dict[int, int] = {}
        self._waves: dict[int, WaveMemory] = {}
        self._pumping = False

    def create(self, spec: QueueSpec, space: Space, host: Host | None = None) -> None:
        """A queue that runs packets of `spec.ring_va` as `space` maps it. Raises: ValueError.

        `host` gets this queue's interrupts and faults, where it is not the one that all share.
        """
        if spec.queue_id in self._queues:
            raise ValueError(f"queue {spec.queue_id} exists; destroy it first")
        if spec.kind not in _KINDS:
            raise ValueError(f"no kind of queue is named {spec.kind}; use {', '.join(_KINDS)}")
        own = f"SDMA{spec.engine}" if spec.kind == "sdma" else "CP"
        several = len(xccs_of(spec, self.host.chip)) > 1
        waves = WaveMemory(space, spec.queue_id, self._waves, several_l2=several)
        self._waves[spec.queue_id] = waves
        context = Context(
            spec, host or self.host, space.agent(own), waves, self._waves, self._signals,
            self.strict, self.max_steps, copy_bytes_per_s=self._copy_bytes_per_s,
            late_stamps=[] if self._late_stamps else None,
        )  # fmt: skip
        self._queues[spec.queue_id] = _Running(context, _KINDS[spec.kind](context))

    def destroy(self, queue_id: int) -> None:
        """Forget a queue, whatever it was doing. Raises: KeyError."""
        del self._queues[queue_id], self._waves[queue_id]
        self.hung.discard(queue_id)
        self.endless.discard(queue_id)

    def doorbell(self, queue_id: int, value: int) -> None:
        """A store to the doorbell of a queue; everything that can move then moves."""
        running = self._queues[queue_id]
        running.rung = value
        self.host.trace("doorbell", queue=queue_id, value=value)
        self.pump()

    def pump(self) -> bool:
        """Run every queue until all are idle, waiting or stopped; whether anything moved."""
        if self._pumping:
            return False
        self._pumping = True
        try:
            moved = False
            for running in self._queues.values():
                running.context.stamps_arrive()
            for _ in range(_FOREVER):
                if not self._round():
                    break
                moved = True
        finally:
            self._pumping = False
            for waves in self._waves.values():
                waves.settle()
        if moved:
            self.host.trace("idle")
        return moved

    def _round(self) -> bool:
        moved = False
        for queue_id, running in list(self._queues.items()):
            if running.stopped or queue_id in self.hung or not running.context.spec.active:
                continue
            moved |= self._step(queue_id, running)
        return moved

    def _step(self, queue_id: int, running: _Running) -> bool:
        try:
            if running.rung is not None:
                value, running.rung = running.rung, None
                running.context.waves.rung()
                running.queue.doorbell(value)
            progress = running.queue.step()
        except Hung as hung:
            self.hung.add(queue_id)
            if isinstance(hung, Endless):
                self.endless.add(queue_id)
            running.context.host.trace("hang", queue=queue_id, why=str(hung))
            return False
        except (PacketFault, MemoryFault, WaveFault) as fault:
            running.stopped = True
            host = running.context.host
            host.trace("queue fault", queue=queue_id, why=str(fault), kind=fault.kind, va=fault.va)
            host.queue_fault(running.context.spec, fault)
            return True
        waiting = progress is Progress.WAITING
        if waiting and not running.waiting:
            context = running.context
            self.host.trace("wait", queue=queue_id, op=context.name, va=context.va)
        running.waiting = waiting
        return progress is Progress.MOVED

    def idle(self, queue_id: int) -> bool:
        """Whether a queue has done everything that it was given. Raises: KeyError."""
        running = self._queues[queue_id]
        stuck = running.stopped or queue_id in self.hung
        return not stuck and running.rung is None and running.queue.idle

    def stopped(self, queue_id: int) -> bool:
        """Whether a fault has stopped a queue. Raises: KeyError."""
        return self._queues[queue_id].stopped

    def read_pointer(self, queue_id: int) -> int:
        """How far a queue has come, in its own units. Raises: KeyError."""
        return self._queues[queue_id].queue.read_pointer

    def waiting(self, queue_id: int) -> bool:
        """Whether a queue is parked on a condition that does not hold. Raises: KeyError."""
        return self._queues[queue_id].waiting
