"""A hardware queue: its ring, pointers, EOP buffer and save area, CREATE_QUEUE, its doorbell.

The kernel wants the ring in an allocation of exactly its size, and the two pointers in one of
exactly one page. # src: kfd_queue.c kfd_queue_acquire_buffers()
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from drivers.amd.bo import Bo, Gpu, Use, allocate
from drivers.amd.chips import EOP_BYTES, PAGE_BYTES
from drivers.amd.cwsr import SaveArea
from drivers.amd.kfd_memory import MmapType, mmap_offset
from drivers.amd.kfd_queue import (
    CREATE_QUEUE,
    DESTROY_QUEUE,
    MAX_QUEUE_PERCENTAGE,
    CreateQueueArgs,
    DestroyQueueArgs,
    QueueType,
)
from drivers.base.contracts import Region
from drivers.base.errors import MalformedInput, Unsupported, UseAfterFree
from drivers.base.undo import Undo, run_all

DOORBELL_SLICE_BYTES: Final = 2 * PAGE_BYTES
"""A process's doorbells of one GPU. # src: kfd_doorbell.c kfd_doorbell_process_slice(), gfx9+"""
PRIORITY: Final = 7
WRITE_OFF: Final = 56
"""amd_queue_t.write_dispatch_id in the page of the pointers. # src: ROCR inc/amd_hsa_queue.h"""
READ_OFF: Final = 128
"""amd_queue_t.read_dispatch_id."""
_WORD_BYTES: Final = 8
_ORDERED: Final = frozenset({"x86_64", "AMD64"})
"""What `platform.machine()` calls x86-64."""


class Doorbells:
    """The doorbell pages of one GPU, mapped with the first queue."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._region: Region | None = None

    def ringer(self, offset: int) -> Callable[[int], None]:
        """What stores a value to the doorbell that CREATE_QUEUE's `doorbell_offset` names."""
        base = offset & -DOORBELL_SLICE_BYTES
        if base != mmap_offset(MmapType.DOORBELL, self._gpu.gpu_id) or offset % _WORD_BYTES:
            raise MalformedInput(
                f"CREATE_QUEUE gave the doorbell {offset:#x}", hint="report it with `uname -r`"
            )
        if self._region is None:
            self._region = self._gpu.world.mmap(self._gpu.session.fd, DOORBELL_SLICE_BYTES, base)
        return store64(self._region, offset - base)

    def close(self) -> None:
        """Unmap them; no queue is left."""
        region, self._region = self._region, None
        if region is not None:
            region.close()


def store64(region: Region, off: int) -> Callable[[int], None]:
    """A function that stores one 64-bit word, as fast as the region allows."""
    try:
        words = region.view().cast("Q")
    except Unsupported:  # registers that are not memory
        write = region.write64
        return lambda value: write(off, value)
    check_order(platform.machine())
    place = words[off // _WORD_BYTES : off // _WORD_BYTES + 1]

    def store(value: int) -> None:
        place[0] = value

    return store


def check_order(machine: str) -> None:
    """Packets, write pointer and doorbell must be seen in the order in which they are stored.

    Raises: Unsupported for processors that promise no such order.
    # src: Intel SDM 3A, 9.2.2: stores to write-back memory, then to uncached memory, stay in order
    """
    if machine not in _ORDERED:
        raise Unsupported(
            f"doorbells on {machine}: stores may reach the GPU in another order",
            hint="use an x86-64 machine",
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What kind of queue, and how large."""

    name: str
    kind: QueueType
    ring_bytes: int
    area: SaveArea | None = None
    """Of a compute queue."""
    engine: int = 0
    """Of a queue of kind SDMA_BY_ENG_ID."""


class HwQueue:
    """A queue that the hardware reads. Everything it needs is freed with it."""

    def __init__(self, gpu: Gpu, plan: Plan, parts: list[Bo], queue_id: int) -> None:
        self.gpu, self.plan, self.queue_id = gpu, plan, queue_id
        self._parts = parts
        self.ring, self.page = parts[0], parts[1]
        self.ring_view = self.ring.view()[: plan.ring_bytes]
        self.page_view = self.page.view()
        pointers = self.page_view.cast("Q")
        self.write_pointer = pointers[WRITE_OFF // _WORD_BYTES : WRITE_OFF // _WORD_BYTES + 1]
        self.read_pointer = pointers[READ_OFF // _WORD_BYTES : READ_OFF // _WORD_BYTES + 1]
        self.doorbell: Callable[[int], None] = _closed

    @classmethod
    def open(
        cls,
        gpu: Gpu,
        doorbells: Doorbells,
        plan: Plan,
        prepare: Callable[[memoryview, Bo], None] | None = None,
    ) -> HwQueue:
        """Allocate, `prepare` the pointers' page, create. Nothing is left behind by a failure."""
        with Undo() as undo:
            parts: list[Bo] = []
            for name, nbytes, use, host in _needs(plan):
                part = allocate(gpu, nbytes, use, f"{plan.name} {name}", host=host)
                undo.add(part.free)
                parts.append(part)
            if prepare is not None:
                prepare(parts[1].view(), parts[0])
            args = CREATE_QUEUE(gpu.world, gpu.session.fd, _args(gpu, plan, parts))
            queue_id = args.queue_id
            undo.add(lambda: _destroy(gpu, queue_id))
            doorbell = doorbells.ringer(args.doorbell_offset)
            queue = cls(gpu, plan, parts, queue_id)
            queue.doorbell = doorbell
        return queue

    def close(self) -> None:
        """Destroy the queue, then free its memory. Raises: UseAfterFree the second time."""
        parts, self._parts = self._parts, []
        if not parts:
            raise UseAfterFree(f"{self.plan.name} was closed twice")
        self.doorbell = _closed
        empty = memoryview(bytearray(PAGE_BYTES))
        self.ring_view = self.page_view = empty
        self.write_pointer = self.read_pointer = empty[:_WORD_BYTES].cast("Q")
        steps = [part.free for part in reversed(parts)]
        run_all([lambda: _destroy(self.gpu, self.queue_id), *steps])


def _closed(value: int) -> None:
    """The doorbell of a queue that is gone."""
    raise UseAfterFree(f"a closed queue was rung with {value}", hint="open the device again")


def _needs(plan: Plan) -> list[tuple[str, int, Use, bool]]:
    """(name, bytes, use, mapped for the host) of every part."""
    needs = [
        ("ring", plan.ring_bytes, Use.SHARED, True),
        ("pointers", PAGE_BYTES, Use.SHARED, True),
    ]
    if plan.area is not None:
        needs.append(("EOP buffer", EOP_BYTES, Use.CODE, False))
        needs.append(("save area", plan.area.total_bytes, Use.CODE, False))
    return needs


def _args(gpu: Gpu, plan: Plan, parts: list[Bo]) -> CreateQueueArgs:
    ring, page = parts[0], parts[1]
    args = CreateQueueArgs(
        ring_base_address=ring.gpu_va,
        ring_size=plan.ring_bytes,
        write_pointer_address=page.gpu_va + WRITE_OFF,
        read_pointer_address=page.gpu_va + READ_OFF,
        gpu_id=gpu.gpu_id,
        queue_type=plan.kind,
        queue_percentage=MAX_QUEUE_PERCENTAGE,
        queue_priority=PRIORITY,
        sdma_engine_id=plan.engine,
    )
    if plan.area is not None:
        eop, save = parts[2], parts[3]
        args.eop_buffer_address, args.eop_buffer_size = eop.gpu_va, EOP_BYTES
        args.ctx_save_restore_address = save.gpu_va
        args.ctx_save_restore_size = plan.area.context_bytes
        args.ctl_stack_size = plan.area.ctl_stack_bytes
    return args


def _destroy(gpu: Gpu, queue_id: int) -> None:
    if not gpu.session.forked:
        DESTROY_QUEUE(gpu.world, gpu.session.fd, DestroyQueueArgs(queue_id=queue_id))
