"""One process on one GPU: its page table, its addresses, its handles and its doorbells."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from boards.amd.cp.engine_types import Chip, QueueEngines, QueueSpec
from boards.amd.hardware import Gpu, Hardware
from boards.amd.memory.pages import VA_BITS, PageTable
from boards.amd.memory.space import AgentSpace, Shared
from boards.amd.memory.tlb import Tlb
from boards.machine.extents import Piece
from boards.machine.pool import Pool

PAGE_SHIFT = 12
DOORBELLS, DOORBELL_BYTES = 1024, 8
SLICE_BYTES = DOORBELLS * DOORBELL_BYTES
"""src: kfd_doorbell_process_slice(), amdgpu_mes_doorbell_process_slice()"""
_FIRST_SDMA_DOORBELL = 0x100
"""src: amdgpu_doorbell.h *_FIRST_NON_CP; a process has at most 255 compute queues"""
_MIRROR = 512
"""src: kfd_priv.h KFD_QUEUE_DOORBELL_MIRROR_OFFSET"""


class Source(Protocol):
    """What an imported buffer keeps: the memory of another one."""

    buffer: Buffer

    def drop(self) -> None:
        """Keep it no more."""


@dataclass(eq=False, slots=True)
class Buffer:
    """One allocation. `device` is None for none; sizes are of the memory, not of what is mapped."""

    handle: int
    device: Device
    va: int
    nbytes: int
    flags: int
    kind: str
    """"VRAM", "GTT", "USERPTR", "DOORBELL" or "MMIO"."""
    pool: Pool | None
    pieces: list[Piece]
    bus: int
    """Bus address of the pool's byte 0."""
    offset: int
    """mmap_offset."""
    doubled: bool = False
    """Mapped twice in a row, for AQL rings."""
    maps: int = 0
    """Host mappings and dma-bufs, which keep the memory."""
    freed: bool = False
    on: list[Device] = field(default_factory=list)
    """GPUs that it is mapped to."""
    source: Source | None = None
    """Whose memory it is, of an imported one."""

    @property
    def first(self) -> Buffer:
        """The buffer that the memory was allocated as."""
        return self if self.source is None else self.source.buffer.first

    @property
    def home(self) -> Gpu:
        """The GPU that the memory was allocated for."""
        return self.first.device.gpu

    def __str__(self) -> str:
        return f"{self.kind} buffer {self.va:#x}+{self.nbytes:#x}"


@dataclass(eq=False, slots=True)
class Mapping:
    """A range of a GPU's addresses that is one buffer's. Pages."""

    buffer: Buffer
    first: int
    count: int
    queues: int = 0
    """Queues that need it: it cannot be unmapped."""


class ProcessHost:
    """`Host` for the engines of one process on one GPU."""

    shared_base, private_base = 1 << 48, 2 << 48
    """src: kfd_flat_memory.c MAKE_LDS_APP_BASE_V9, MAKE_SCRATCH_APP_BASE_V9"""

    def __init__(
        self,
        hardware: Hardware,
        chip: Chip,
        interrupt: Callable[[int], None],
        fault: Callable[[QueueSpec, Exception], None],
    ) -> None:
        self.chip, self._hardware = chip, hardware
        self._interrupt, self._fault = interrupt, fault

    def interrupt(self, event_id: int) -> None:
        self._interrupt(event_id)

    def message(self, data: int) -> None:
        self._interrupt(data)

    def queue_fault(self, spec: QueueSpec, error: Exception) -> None:
        self._fault(spec, error)

    def ticks(self) -> int:
        return self._hardware.clock.ticks()

    def find(self, kind: str, what: str) -> None:
        self._hardware.find(kind, what)

    def trace(self, name: str, **facts: int | str) -> None:
        if self._hardware.trace is not None:
            self._hardware.trace(name, facts)


class Device:
    """kfd_process_device: what the kernel keeps of a process for each GPU."""

    def __init__(self, hardware: Hardware, gpu: Gpu, pid: int, host: ProcessHost) -> None:
        self.hardware, self.gpu, self.host = hardware, gpu, host
        self._prefix = f"process {pid} GPU {gpu.index} "
        self.drm_fd = -1
        self.table: PageTable | None = None
        self.tlb: Tlb | None = None
        self._space: AgentSpace | None = None
        self._engines: QueueEngines | None = None
        self.handles: dict[int, Buffer] = {}
        self.mappings: list[Mapping] = []
        self.doorbells: set[int] = set()
        self.trap = (0, 0)
        """The process's own trap handler and its memory."""
        self.evicted = False
        """After a page fault: new queues do not run either."""
        self.zapped = 0
        """How often resets have unmapped its doorbells and registers from the process."""
        self.stale_tlb = False
        """The fault panel lets the next flushes be forgotten."""

    def acquire(self, drm_fd: int) -> None:
        """ACQUIRE_VM: from now on the process has addresses here."""
        self.table = PageTable(self.gpu.format, self.gpu.vram, self.gpu.memory)
        self.tlb = Tlb(self.table, self.gpu.vram, self.hardware.bus)
        checks, find = self.hardware.options.checks, self.hardware.find
        shared = Shared(
            self.tlb, self.hardware.coherence, checks, find, self.buffer_at, self._prefix
        )
        self._space = AgentSpace(shared, "process")
        self.drm_fd = drm_fd

    def bound(self) -> PageTable:
        """src: kfd_bind_process_to_device(). Raises: OSError ENODEV before ACQUIRE_VM."""
        if self.table is None:
            raise OSError(errno.ENODEV, "the process has no VM here: ACQUIRE_VM comes first")
        return self.table

    @property
    def space(self) -> AgentSpace:
        """The process's addresses on this GPU."""
        if self._space is None:
            raise OSError(errno.ENODEV, "the process has no VM here")
        return self._space

    @property
    def engines(self) -> QueueEngines:
        """Made when the first queue is."""
        if self._engines is None:
            self._engines = self.hardware.engines(self.host)
        return self._engines

    def buffer_at(self, va: int) -> str:
        """The buffer that an address is mapped to, in words."""
        found = self.find_mapping(va)
        return str(found.buffer) if found is not None else f"nothing at {va:#x}"

    def find_mapping(self, va: int) -> Mapping | None:
        """The mapping that holds an address."""
        page = va >> PAGE_SHIFT
        inside = (m for m in self.mappings if m.first <= page < m.first + m.count)
        return next(inside, None)

    def exact_mapping(self, va: int, nbytes: int) -> Mapping:
        """src: kfd_queue_buffer_get(). Raises: OSError EINVAL unless it is just that range."""
        found, pages = self.find_mapping(va), nbytes >> PAGE_SHIFT
        if found is None or va >> PAGE_SHIFT != found.first or (pages and pages != found.count):
            what = "nothing" if found is None else f"{found.count} pages of {found.buffer}"
            raise OSError(errno.EINVAL, f"{what} at {va:#x}, wanted {pages} pages from there on")
        return found

    def check_range(self, va: int, nbytes: int) -> None:
        """src: amdgpu_vm_bo_map(). Raises: OSError EINVAL for a range that cannot be mapped."""
        first, count = va >> PAGE_SHIFT, nbytes >> PAGE_SHIFT
        if va & (1 << PAGE_SHIFT) - 1 or not count or va + nbytes > 1 << VA_BITS:
            raise OSError(errno.EINVAL, f"{va:#x}+{nbytes:#x} are no addresses of a GPU")
        for mapping in self.mappings:
            if mapping.first < first + count and first < mapping.first + mapping.count:
                raise OSError(errno.EINVAL, f"{va:#x} is {mapping.buffer} already")

    def flush(self) -> None:
        """Invalidate the TLB, unless the fault panel has the kernel forget it."""
        if self.tlb is not None and not self.stale_tlb:
            self.tlb.flush()

    def new_doorbell(self) -> int:
        """A doorbell of a compute queue. src: allocate_doorbell(). Raises: OSError EBUSY."""
        for number in range(_FIRST_SDMA_DOORBELL):
            if number not in self.doorbells:
                self.doorbells.add(number)
                return number
        raise OSError(errno.EBUSY, "no doorbell left")

    def sdma_doorbell(self, engine: int, queue: int) -> int:
        """The doorbell that a queue of a copy engine always has. src: allocate_doorbell()"""
        base = _FIRST_SDMA_DOORBELL + 10 * engine
        if self.gpu.chip.family == "gfx9":
            base = -(-base // 4) * 4
        return base + (queue & 1) * _MIRROR + (queue >> 1)

    def close(self) -> None:
        """Give the page table back."""
        if self.table is not None:
            self.table.close()
        self.table = self.tlb = self._space = None
        self._engines = None
