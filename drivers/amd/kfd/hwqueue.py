"""A hardware queue of KFD: EOP buffer, save area, CREATE_QUEUE, and its doorbell.

The kernel wants the ring in an allocation of exactly its size, and the two pointers in one of
exactly one page. # src: kfd_queue.c kfd_queue_acquire_buffers()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from drivers.amd import aql_errors
from drivers.amd.chips import EOP_BYTES, PAGE_BYTES
from drivers.amd.hwqueue import READ_OFF, WRITE_OFF, HwQueue
from drivers.amd.iface import Plan, Prepare
from drivers.amd.kfd.bo import Bo, Gpu, allocate
from drivers.amd.kfd.cwsr import SaveArea
from drivers.amd.kfd.exceptions import Exceptions
from drivers.amd.kfd.memory import MmapType, mmap_offset
from drivers.amd.kfd.queue import (
    CREATE_QUEUE,
    DESTROY_QUEUE,
    MAX_QUEUE_PERCENTAGE,
    SDMA_ENGINE_MINOR,
    CreateQueueArgs,
    DestroyQueueArgs,
    QueueType,
)
from drivers.base.contracts import Region
from drivers.base.errors import MalformedInput
from drivers.base.undo import Step, Undo, run_all
from drivers.gpu.doorbell import movable64
from drivers.gpu.iface import Use

DOORBELL_SLICE_BYTES: Final = 2 * PAGE_BYTES
"""A process's doorbells of one GPU. # src: kfd_doorbell.c kfd_doorbell_process_slice(), gfx9+"""
PRIORITY: Final = 7
_WORD_BYTES: Final = 8
_COMPUTE: Final = {"PM4": QueueType.COMPUTE, "AQL": QueueType.COMPUTE_AQL}


class Doorbells:
    """The doorbell pages of one GPU, mapped with the first queue."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._region: Region | None = None
        self._base = 0
        self._moves: list[Callable[[Region], None]] = []
        """What has each doorbell ring in another mapping."""
        self._old: list[Region] = []

    def ringer(self, offset: int) -> Callable[[int], None]:
        """What stores a value to the doorbell that CREATE_QUEUE's `doorbell_offset` names."""
        base = offset & -DOORBELL_SLICE_BYTES
        if base != mmap_offset(MmapType.DOORBELL, self._gpu.gpu_id) or offset % _WORD_BYTES:
            raise MalformedInput(
                f"CREATE_QUEUE gave the doorbell {offset:#x}", hint="report it with `uname -r`"
            )
        if self._region is None:
            self._region, self._base = self._map(base), base
        store, move = movable64(self._region, offset - base)
        self._moves.append(move)
        return store

    def _map(self, base: int) -> Region:
        return self._gpu.world.mmap(self._gpu.session.fd, DOORBELL_SLICE_BYTES, base)

    def renew(self) -> None:
        """Map them again after a reset, which has unmapped them: every doorbell is in the new one.

        # src: Linux 7.3 amdgpu_amdkfd_clear_kfd_mapping(); kfd_doorbell_mmap() maps them anew
        """
        if self._region is None:
            return
        fresh = self._map(self._base)
        for move in self._moves:
            move(fresh)
        self._old.append(self._region)  # another thread may hold a view until its store is done
        self._region = fresh

    def close(self) -> None:
        """Unmap them; no queue is left."""
        region, self._region = self._region, None
        old, self._old = self._old, []
        self._moves.clear()
        run_all([one.close for one in (*old, region) if one is not None])


@dataclass(frozen=True, slots=True)
class Errors:
    """Who hears of the errors of an AQL queue, and the event that its processor raises."""

    exceptions: Exceptions
    mailbox_va: int
    event_id: int

    def listen(self, page: Bo) -> Step:
        """From now on; what ends it."""
        view = page.view()
        aql_errors.arm(view, page.gpu_va, self.mailbox_va, self.event_id)
        self.exceptions.watch(page.gpu_va, view)
        return partial(self.exceptions.forget, page.gpu_va)


def open_queue(
    gpu: Gpu,
    doorbells: Doorbells,
    plan: Plan,
    area: SaveArea,
    sdma_engines: int,
    prepare: Prepare | None = None,
    errors: Errors | None = None,
) -> HwQueue:
    """Allocate, `prepare` the pointers' page, create. Nothing is left behind by a failure."""
    with Undo() as undo:
        parts: list[Bo] = []
        for name, nbytes, use, host in _needs(plan, area):
            part = allocate(gpu, nbytes, use, f"{plan.name} {name}", host=host)
            undo.add(part.free)
            parts.append(part)
        if prepare is not None:
            prepare(parts[1].view(), parts[0])
        stop: list[Step] = []
        if errors is not None:
            stop.append(errors.listen(parts[1]))
            undo.add(stop[0])
        args = _args(gpu, plan, area, parts)
        args.queue_type = _kind(gpu, plan, sdma_engines)
        CREATE_QUEUE(gpu.world, gpu.session.fd, args)
        queue_id = args.queue_id
        destroy = partial(_destroy, gpu, queue_id)
        undo.add(destroy)
        doorbell = doorbells.ringer(args.doorbell_offset)
        return HwQueue(plan, parts, queue_id, doorbell, partial(run_all, [destroy, *stop]))


def _kind(gpu: Gpu, plan: Plan, sdma_engines: int) -> QueueType:
    """Before KFD 1.17 the kernel chooses: it gives queues open together different engines."""
    if plan.kind in _COMPUTE:
        return _COMPUTE[plan.kind]
    if plan.engine is None:
        return QueueType.SDMA
    if gpu.session.minor >= SDMA_ENGINE_MINOR:
        return QueueType.SDMA_BY_ENG_ID
    return QueueType.SDMA if plan.engine < sdma_engines else QueueType.SDMA_XGMI


def _needs(plan: Plan, area: SaveArea) -> list[tuple[str, int, Use, bool]]:
    """(name, bytes, use, mapped for the host) of every part."""
    needs = [
        ("ring", plan.ring_bytes, Use.PACKETS, True),
        ("pointers", PAGE_BYTES, Use.SHARED, True),
    ]
    if plan.kind in _COMPUTE:
        needs.append(("EOP buffer", EOP_BYTES, Use.DEVICE, False))
        needs.append(("save area", area.total_bytes, Use.DEVICE, False))
    return needs


def _args(gpu: Gpu, plan: Plan, area: SaveArea, parts: list[Bo]) -> CreateQueueArgs:
    ring, page = parts[0], parts[1]
    args = CreateQueueArgs(
        ring_base_address=ring.gpu_va,
        ring_size=plan.ring_bytes,
        write_pointer_address=page.gpu_va + WRITE_OFF,
        read_pointer_address=page.gpu_va + READ_OFF,
        gpu_id=gpu.gpu_id,
        queue_percentage=MAX_QUEUE_PERCENTAGE,
        queue_priority=PRIORITY,
        sdma_engine_id=plan.engine or 0,
    )
    if plan.kind in _COMPUTE:
        eop, save = parts[2], parts[3]
        args.eop_buffer_address, args.eop_buffer_size = eop.gpu_va, EOP_BYTES
        args.ctx_save_restore_address = save.gpu_va
        args.ctx_save_restore_size = area.context_bytes
        args.ctl_stack_size = area.ctl_stack_bytes
    return args


def _destroy(gpu: Gpu, queue_id: int) -> None:
    if not gpu.session.forked:
        DESTROY_QUEUE(gpu.world, gpu.session.fd, DestroyQueueArgs(queue_id=queue_id))
