"""Submit queues, and the fences of their submissions.

src: Linux 6.12, drivers/gpu/drm/msm/msm_submitqueue.c, msm_gpu.c (recover_worker)
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field

from boards.qcom.msm.abi import QUEUE_VM_BIND

RINGS, LEVELS = 1, 3
PRIORITIES = RINGS * LEVELS


@dataclass(slots=True, eq=False)
class Queue:
    """One."""

    id: int
    priority: int
    last: int = 0
    """The last fence that was given out."""
    pending: set[int] = field(default_factory=set)
    faults: int = 0
    binds: bool = False
    """Whether it takes VM_BIND, and nothing else."""

    def passed(self, fence: int) -> bool:
        """Whether a submission has ended."""
        return fence not in self.pending


class Queues:
    """Of one open file; number 0 is always there."""

    def __init__(self) -> None:
        self.by_id = {0: Queue(0, LEVELS // 2)}
        self._next = 1

    def get(self, number: int) -> Queue:
        """By id. Raises: OSError ENOENT."""
        found = self.by_id.get(number)
        if found is None:
            raise OSError(errno.ENOENT, f"no submit queue {number}")
        return found

    def new(self, flags: int, priority: int, known: int, *, vm_bind: bool = False) -> Queue:
        """`known`: flags of this release. Raises: OSError EINVAL."""
        binds = flags & QUEUE_VM_BIND
        refused = flags & ~known or priority >= PRIORITIES
        if refused or (binds and (priority or not vm_bind)):
            raise OSError(errno.EINVAL, f"a queue of flags {flags:#x}, priority {priority}")
        made = Queue(self._next, priority, binds=bool(flags & QUEUE_VM_BIND))
        self._next += 1
        self.by_id[made.id] = made
        return made

    def close(self, number: int) -> Queue:
        """Raises: OSError ENOENT; the first one stays."""
        if not number:
            raise OSError(errno.ENOENT, "queue 0 is not closed")
        found = self.get(number)
        del self.by_id[number]
        return found
