"""Queues of processes on the engines, for whichever scheduler: MES, or HWS of gfx942's HIQ.

Every queue that is added is mapped at once, on a free place of its engine. Where none is free, a
compute queue without work gives its place up and is mapped again when its doorbell rings; a queue
with work is never taken off, so that more busy queues than places are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from boards.amd.cp import kernel
from boards.amd.pci import mes_frames as f
from boards.amd.pci import mqd
from boards.amd.pci.board import Board
from boards.amd.pci.compute import Compute
from boards.amd.pci.grbm import Queue
from boards.amd.pci.kernel_queues import KernelQueues
from boards.amd.pci.sdma import Sdma

_FIRST_QUEUE = 1
"""Of an SDMA engine, the first that is a process's. src: amdgpu_mes.c sdma_hqd_mask 0xfc"""
_KEY_NUMBERS: Final = 3
"""Of a compute queue's place: micro engine, pipe, queue."""
Place: TypeAlias = Queue | tuple[int, int]
"""Of a compute queue, or an SDMA queue's engine and number."""
_Placed: TypeAlias = tuple[Place | None, str]
"""Where a queue is mapped, and why it is not."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A queue of a process that a scheduler is told to run."""

    kind: int
    """GFX_QUEUE, COMPUTE_QUEUE or SDMA_QUEUE of mes_frames."""
    pasid: int
    vmid: int
    mqd_va: int
    kfd: bool = False
    trap_va: int = 0
    engine: int = -1
    """Of an SDMA queue, the engine that its packet and its MQD name; -1: the scheduler's choice."""


@dataclass(frozen=True, slots=True)
class _Added:
    wanted: Wanted
    place: Place | None


class ProcessQueues:
    """By doorbell, in dwords."""

    def __init__(
        self, board: Board, queues: KernelQueues, compute: Compute, sdma: Sdma, scheduler: str
    ) -> None:
        self._board, self._queues, self._compute, self._sdma = board, queues, compute, sdma
        self._scheduler = scheduler
        """What violations call it."""
        self.places: tuple[Queue, ...] = ()
        """Compute queues that the scheduler may use."""
        self._added: dict[int, _Added] = {}
        self._removed: set[int] = set()
        """Doorbells of queues that were removed and not added again: a process may ring them, for
        it is not told that it was evicted, and the write pointer in memory counts. A ring after the
        queue was destroyed is not noticed: the same frame removes it.
        src: kfd_device_queue_manager.c remove_queue_mes(), evict_process_queues_cpsch(),
        destroy_queue_cpsch()
        """
        board.on_reset(self._forget, core=True)

    def _forget(self) -> None:
        self._added.clear()
        self._removed.clear()

    def all(self) -> dict[int, Wanted]:
        """Those that were added."""
        return {doorbell_dw: added.wanted for doorbell_dw, added in self._added.items()}

    def was_removed(self, doorbell_dw: int) -> bool:
        """Whether a doorbell is that of a queue that was removed."""
        return doorbell_dw in self._removed

    def add(self, doorbell_dw: int, wanted: Wanted, written: int | None) -> str:
        """Map a queue; why it cannot be. `written` is its write pointer in memory: with work in
        it, it goes on as if its doorbell had rung."""
        if doorbell_dw in self._added:
            return f"doorbell {doorbell_dw} has a queue"
        place, why = self._place(wanted)
        if why:
            return why
        self._added[doorbell_dw] = _Added(wanted, place)
        self._removed.discard(doorbell_dw)
        if written is None or wanted.kind == f.GFX_QUEUE or place is None:
            return ""
        if wanted.kind == f.SDMA_QUEUE:
            self._sdma.catch_up(place[0], place[1], written)
        else:
            self._compute.catch_up(doorbell_dw, written)
        return ""

    def _place(self, wanted: Wanted) -> _Placed:
        """Put a queue on a free place; the place, or why there is none."""
        if wanted.kind == f.SDMA_QUEUE:
            return self._place_copies(wanted)
        queues, mqd_va, vmid = self._queues, wanted.mqd_va, wanted.vmid
        if wanted.kind == f.GFX_QUEUE:
            return None, queues.map_queue(kernel.GRAPHICS, 0, 0, mqd_va, vmid)
        taken = self._compute.queues()
        place = next((key for key in self.places if key not in taken), None) or self._room()
        if place is None:
            return None, "no compute queue is free"
        _, pipe, queue = place
        return place, queues.map_queue(
            kernel.COMPUTE, pipe, queue, mqd_va, vmid, kfd=wanted.kfd, trap_va=wanted.trap_va
        )

    def _place_copies(self, wanted: Wanted) -> _Placed:
        data = self._queues.read(wanted.mqd_va, mqd.SDMA_MQD_BYTES)
        if data is None:
            return None, f"no MQD at {wanted.mqd_va:#x}"
        words = mqd.words_of(data)
        slot = self._sdma.free(_FIRST_QUEUE)
        if wanted.engine >= 0:
            engine, queue = words[mqd.SDMA_ENGINE], words[mqd.SDMA_QUEUE]
            if engine != wanted.engine:
                return None, f"its MQD names SDMA{engine}, its packet SDMA{wanted.engine}"
            slot = (engine, queue + _FIRST_QUEUE)
            if not self._sdma.is_free(slot):
                return None, f"SDMA{engine} has no queue {queue} that is free"
        if slot is None:
            return None, "no SDMA queue is free"
        self._sdma.load(slot, words, wanted.vmid)
        return slot, ""

    def _room(self) -> Queue | None:
        """The place of a compute queue without work, which waits for its doorbell from now on."""
        for doorbell_dw, added in self._added.items():
            place = added.place
            if added.wanted.kind != f.COMPUTE_QUEUE or place is None or len(place) != _KEY_NUMBERS:
                continue
            if self._compute.idle(place):
                self._take(added, doorbell_dw)
                self._added[doorbell_dw] = replace(added, place=None)
                return place
        return None

    def wake(self, doorbell_dw: int) -> None:
        """A doorbell rings: if its queue has given its place up, it gets one again."""
        added = self._added.get(doorbell_dw)
        if added is None or added.wanted.kind != f.COMPUTE_QUEUE or added.place is not None:
            return
        place, why = self._place(added.wanted)
        if why:
            what = f"the queue of doorbell {doorbell_dw} cannot go on: {why}"
            self._board.find(self._scheduler, what)
            return
        self._added[doorbell_dw] = replace(added, place=place)

    def remove(self, doorbell_dw: int) -> Wanted | None:
        """Unmap a queue, whatever it was doing; None where there is none."""
        added = self._added.pop(doorbell_dw, None)
        if added is None:
            return None
        self._take(added, doorbell_dw)
        self._removed.add(doorbell_dw)
        return added.wanted

    def _take(self, added: _Added, doorbell_dw: int) -> None:
        """Unmap a queue, and save how far it is in its MQD, from where it is mapped again."""
        kind, mqd_va = added.wanted.kind, added.wanted.mqd_va
        if kind == f.GFX_QUEUE:
            self._queues.unmap_queue(kernel.GRAPHICS, doorbell_dw)
        elif kind == f.SDMA_QUEUE and added.place is not None:
            read = self._sdma.unload((added.place[0], added.place[1]))
            at = mqd_va + 4 * mqd.SDMA_READ_POINTER
            self._queues.write(at, read.to_bytes(8, "little") * 2)
        elif added.place is not None:
            read = self._compute.take(doorbell_dw)
            for block, own_va in self._queues.mqds(mqd_va):
                for dword, data in mqd.saved(block, read):
                    self._queues.write(own_va + 4 * dword, data)
