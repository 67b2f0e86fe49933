"""Contexts of KGSL: submissions, timestamps, resets.

src: kgsl.c, kgsl_drawobj.c, adreno_drawctxt.c, adreno_dispatch.c of Qualcomm's downstream kernels,
as far as their errno and checks are known
"""

from __future__ import annotations

import errno
from collections import deque
from dataclasses import dataclass, field
from functools import partial

from boards.qcom.cp.faults import HANG, PAGE_FAULT, GpuFault
from boards.qcom.engine import Job
from boards.qcom.hardware import AdrenoGpu, AdrenoHardware
from boards.qcom.kgsl import abi
from boards.qcom.space import Space

_WRAP, _HALF = 1 << 32, 1 << 31
_MOST_CONTEXTS, MOST_QUEUED = 200, 128
"""# src: kgsl.h KGSL_MAX_CONTEXTS_PER_PROC; adreno_drawctxt.h ADRENO_CONTEXT_DRAWQUEUE_SIZE"""
_KNOWN_FLAGS = 0x1FF7FADA
"""Others are dropped. # src: adreno_drawctxt.c adreno_drawctxt_create()"""
DEFAULT_PRIORITY = 8
_MOST_FAULTS = 40
"""# src: kgsl_device.h KGSL_MAX_FAULT_ENTRIES"""
_RINGS = 4
_NUMBERS = iter(range(1, 1 << 31))


def later(one: int, other: int) -> int:
    """How far a timestamp is after another one: both are of 32 bits and wrap."""
    ahead = (one - other) % _WRAP
    return ahead - _WRAP if ahead >= _HALF else ahead


@dataclass(slots=True, eq=False)
class Context:
    """One draw context."""

    id: int
    flags: int
    owner: object
    """The open file that made it."""
    queued: int = 0
    started: int = 0
    retired: int = 0
    reset: int = abi.NO_ERROR
    """The worst since it was last asked for."""
    invalid: bool = False
    gone: bool = False
    faults: int = 0
    page_faults: deque[tuple[int, int]] = field(default_factory=partial(deque, maxlen=_MOST_FAULTS))
    """Address and KGSL_PAGEFAULT_TYPE_*, for who asked for CTX_FAULT_INFO; the oldest first."""
    jobs: deque[tuple[int, Job]] = field(default_factory=deque)
    """Timestamp and submission of what has not retired."""

    @property
    def ring(self) -> int:
        """By priority: 0 ... 15 in four rings."""
        priority = self.flags >> abi.CTX_PRIORITY_SHIFT & abi.CTX_PRIORITY_MASK
        return (priority or DEFAULT_PRIORITY) * _RINGS // (abi.CTX_PRIORITY_MASK + 1)

    def passed(self, timestamp: int) -> bool:
        """Whether a timestamp has retired, or never will."""
        return later(self.retired, timestamp) >= 0

    def settled(self, timestamp: int) -> bool:
        """Whether who waits for a timestamp need not wait any longer."""
        return self.passed(timestamp) or self.invalid or self.gone


class Contexts:
    """Of one process."""

    def __init__(self, hardware: AdrenoHardware, gpu: AdrenoGpu, pid: int, space: Space) -> None:
        self._hardware, self._gpu, self._pid, self._space = hardware, gpu, pid, space
        self.by_id: dict[int, Context] = {}

    def get(self, number: int) -> Context:
        """By id. Raises: OSError EINVAL."""
        found = self.by_id.get(number)
        if found is None:
            raise OSError(errno.EINVAL, f"no context {number}")
        return found

    def create(self, flags: int, owner: object, first: int = 0) -> Context:
        """Raises: OSError EINVAL, EOPNOTSUPP, ENOSPC."""
        if flags & abi.CTX_SECURE:
            raise OSError(errno.EOPNOTSUPP, "no secure contexts")
        wanted = abi.CTX_PREAMBLE | abi.CTX_NO_GMEM_ALLOC
        if flags & wanted != wanted or flags & abi.CTX_LPAC:
            raise OSError(errno.EINVAL, f"a context of flags {flags:#x}")
        known = _KNOWN_FLAGS | (abi.CTX_FAULT_INFO if self._hardware.fault_info else 0)
        flags = flags & known | abi.CTX_PER_CONTEXT_TS
        if len(self.by_id) >= _MOST_CONTEXTS:
            raise OSError(errno.ENOSPC, f"{_MOST_CONTEXTS} contexts are the most")
        made = Context(next(_NUMBERS), flags, owner, first, first, first)
        self.by_id[made.id] = made
        return made

    def destroy(self, context: Context) -> None:
        """Its submissions are forgotten."""
        context.gone = True
        self._gpu.engine.cancel(context)
        context.retired = context.queued
        context.jobs.clear()
        self.by_id.pop(context.id, None)

    def close(self, owner: object = None) -> None:
        """Those of an open file, or all."""
        for context in list(self.by_id.values()):
            if owner is None or context.owner is owner:
                self.destroy(context)

    # Submissions

    def timestamp(self, context: Context, wanted: int) -> int:
        """The next one. Raises: OSError EDEADLK, ENOENT, ERANGE."""
        if context.gone:
            raise OSError(errno.ENOENT, f"context {context.id} is gone")
        if context.invalid:
            raise OSError(errno.EDEADLK, f"context {context.id} was shut down after a fault")
        if context.flags & abi.CTX_USER_TS:
            if later(wanted, context.queued) <= 0:
                raise OSError(errno.ERANGE, f"timestamp {wanted} is not after {context.queued}")
            return wanted
        return (context.queued + 1) % _WRAP

    def submit(self, context: Context, timestamp: int, job: Job) -> None:
        """Queue a submission; work begins at once."""
        context.queued = timestamp
        context.jobs.append((timestamp, job))
        self._gpu.engine.submit(job)
        self._hardware.kick()

    def retire(self, context: Context, timestamp: int, fault: GpuFault | None) -> None:
        """A submission has ended, well or not."""
        if context.jobs and context.jobs[0][0] == timestamp:
            context.jobs.popleft()
        context.retired = context.started = timestamp
        if fault is not None:
            self._fault(context, timestamp, fault)

    def _fault(self, context: Context, timestamp: int, fault: GpuFault) -> None:
        gpu, log = self._gpu, self._hardware.log
        gpu.faults += 1
        context.faults += 1
        context.reset = abi.GUILTY
        if fault.kind == PAGE_FAULT:
            self._keep(context, fault)
            log.append(
                f"kgsl kgsl-3d0: GPU PAGE FAULT: addr = {fault.va:X} pid= {self._pid} "
                f"context={context.id} {fault.access} fault: {fault.why}"
            )
        title = "gpu timeout" if fault.kind == HANG else "gpu fault"
        log.append(
            f"kgsl kgsl-3d0: |adreno_fault| {title} ctx {context.id} ts {timestamp}: "
            f"{fault.kind}, {fault.why}"
        )
        if context.flags & (abi.CTX_NO_FAULT_TOLERANCE | abi.CTX_INVALIDATE_ON_FAULT):
            context.invalid = True
            gpu.engine.cancel(context)
            context.jobs.clear()

    def _keep(self, context: Context, fault: GpuFault) -> None:
        """What the SMMU said of a page fault. # src: kgsl_iommu.c kgsl_iommu_add_fault_info()"""
        if context.flags & abi.CTX_FAULT_INFO:
            mapped = self._space.find(fault.va) is not None
            kind = abi.FAULT_PERMISSION if mapped else abi.FAULT_TRANSLATION
            access = abi.FAULT_READ if fault.access == "read" else abi.FAULT_WRITE
            context.page_faults.append((fault.va, kind | access))
