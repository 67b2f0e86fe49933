"""What runs submissions: a ring for each priority, and what happens when one does not go on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from boards.qcom.cp.faults import HANG, GpuFault
from boards.qcom.cp.opcodes import HANDLERS
from boards.qcom.cp.processor import Machine, Processor
from boards.qcom.space import Space

_MOST_ROUNDS = 10_000
_NS_PER_MS = 1_000_000


@dataclass(slots=True, eq=False)
class Job:
    """One submission of a context."""

    owner: object
    space: Space
    streams: list[tuple[int, int]]
    """Indirect buffers: address, words."""
    ready: Callable[[], bool]
    """Whether what it was told to wait for has come."""
    done: Callable[[GpuFault | None], None]
    ring: int = 0
    limit_ms: int = 2000
    """After which the kernel calls it hung."""
    patience_ms: tuple[int, int] = (0, 0)
    """For one dispatch, and for all of them, where code takes time."""
    began_ns: int = 0
    where: str = ""
    """The packet that it is at."""
    running: Iterator[None] | None = None
    processor: Processor | None = None


class Engine:
    """The command processor of one GPU."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.rings: dict[int, deque[Job]] = {}
        self.muted = False
        """Whether the firmware takes no work."""
        self.stuck: set[int] = set()
        """Owners (by id) whose next submission never ends."""
        self.doomed: list[GpuFault] = []
        """What becomes of the next submissions, whatever is in them."""
        self._pumping = False

    @property
    def jobs(self) -> list[Job]:
        """Everything that has not ended."""
        return [job for ring in self.rings.values() for job in ring]

    def submit(self, job: Job) -> None:
        """Queue a submission; it runs with `pump`."""
        self.rings.setdefault(job.ring, deque()).append(job)

    def cancel(self, owner: object) -> None:
        """Forget what an owner has queued: it is gone."""
        for ring in self.rings.values():
            kept = [job for job in ring if job.owner is not owner]
            ring.clear()
            ring.extend(kept)

    @property
    def deadline_ns(self) -> int | None:
        """When the first submission that cannot go on counts as hung."""
        found = [job.began_ns + job.limit_ms * _NS_PER_MS for job in self.jobs if job.began_ns]
        return min(found) if found else None

    def pump(self) -> None:
        """Let every ring go on as far as it can."""
        if self._pumping:
            return
        self._pumping = True
        try:
            for _ in range(_MOST_ROUNDS):
                ended = [self._step(ring) for ring in list(self.rings.values())]
                if not any(ended):
                    break
        finally:
            self._pumping = False

    def _step(self, ring: deque[Job]) -> bool:
        """Whether a submission of a ring has ended."""
        job = self._next(ring)
        if job is None:
            return False
        if not job.began_ns:
            self._begin(job)
        try:
            if self.doomed:
                raise self.doomed.pop(0)
            if self._goes_on(job):
                return False
        except GpuFault as fault:
            self._end(ring, job, fault)
            return True
        self._end(ring, job, None)
        return True

    @staticmethod
    def _next(ring: deque[Job]) -> Job | None:
        """What runs, else the first that need not wait and has none of its owner before it."""
        waiting: set[int] = set()
        for job in ring:
            if job.began_ns:
                return job
            if id(job.owner) not in waiting and job.ready():
                return job
            waiting.add(id(job.owner))
        return None

    def _begin(self, job: Job) -> None:
        self.machine.power.wake()
        job.began_ns = self.machine.clock.now_ns()
        self.machine.clock.alarm(job.began_ns + job.limit_ms * _NS_PER_MS)
        job.processor = Processor(self.machine, job.space, HANDLERS, patience_ms=job.patience_ms)
        job.running = job.processor.run(job.streams)

    def _goes_on(self, job: Job) -> bool:
        """Whether it has to wait. Raises: GpuFault."""
        blocked = self.muted or id(job.owner) in self.stuck
        if not blocked and job.running is not None:
            blocked = next(job.running, self) is None
        job.where = job.processor.last if job.processor is not None else ""
        if blocked and self.machine.clock.now_ns() >= job.began_ns + job.limit_ms * _NS_PER_MS:
            self.stuck.discard(id(job.owner))
            raise GpuFault(HANG, f"no progress for {job.limit_ms} ms at {job.where or 'its start'}")
        return blocked

    def _end(self, ring: deque[Job], job: Job, fault: GpuFault | None) -> None:
        if job in ring:
            ring.remove(job)
        self.machine.caches.end()
        if not self.jobs:
            self.machine.power.rest()
        if fault is not None:
            self.machine.event("fault", kind=fault.kind, why=fault.why, va=fault.va)
        job.done(fault)
