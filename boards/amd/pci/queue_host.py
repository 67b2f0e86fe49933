"""The queues that hardware runs now: engines for each VMID, between hubs and interrupts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from boards.amd.cp.engine_types import Chip, QueueEngines, QueueSpec
from boards.amd.pci.board import Board
from boards.amd.pci.vm_hub import VmHub
from boards.amd.wave.types import MemoryFault

_MAX_ROUNDS = 1 << 16
_POINTER_BYTES = 8


class QueueHost:
    """`Host` of one queue: where flat apertures lie, what becomes of interrupts and faults."""

    def __init__(
        self,
        board: Board,
        chip: Chip,
        apertures: Callable[[], tuple[int, int]],
        interrupt: Callable[[int], None],
        fault: Callable[[Exception], None],
        message: Callable[[int], None] | None = None,
    ) -> None:
        self.chip, self._board, self._apertures = chip, board, apertures
        self._interrupt, self._fault, self._message = interrupt, fault, message

    @property
    def shared_base(self) -> int:
        return self._apertures()[0]

    @property
    def private_base(self) -> int:
        return self._apertures()[1]

    def interrupt(self, event_id: int) -> None:
        self._interrupt(event_id)

    def message(self, data: int) -> None:
        if self._message is not None:  # only waves send any
            self._message(data)

    def queue_fault(self, spec: QueueSpec, error: Exception) -> None:
        self._fault(error)

    def ticks(self) -> int:
        return self._board.clock.ticks()

    def find(self, kind: str, what: str) -> None:
        self._board.find(kind, what)

    def trace(self, name: str, **facts: int | str) -> None:
        self._board.hardware.event(name, **facts)


@dataclass(eq=False, slots=True)
class Live:
    """A queue as the engines run it."""

    name: str
    vmid: int
    hub: VmHub
    spec: QueueSpec
    host: QueueHost
    why_not: Callable[[], str]
    """What keeps the engine that runs it from running; empty when it does."""
    polls: Callable[[], bool]
    """Whether the engine also polls the write pointer in memory by itself."""
    rung: int = -1
    """The last write pointer that reached it; -1 for none yet."""


class Queues:
    """All queues, by VMID."""

    def __init__(self, board: Board, hubs: Iterable[VmHub]) -> None:
        self._board, self._hubs = board, tuple(hubs)
        self._engines: dict[int, QueueEngines] = {}
        self.live: list[Live] = []
        self._next_id = 1
        self._late: list[tuple[Live, int]] = []
        self._deep = 0
        board.on_pump(self.pump)
        board.on_reset(self._forget, core=True)

    def _forget(self) -> None:
        self._engines.clear()
        self.live.clear()
        self._late.clear()

    def next_id(self) -> int:
        """A number that no queue has had."""
        self._next_id += 1
        return self._next_id - 1

    def engines(self, live: Live) -> QueueEngines:
        """Those of a queue's VMID."""
        if live.vmid not in self._engines:
            self._engines[live.vmid] = self._board.hardware.engines(live.host)
        return self._engines[live.vmid]

    def start(self, live: Live) -> None:
        """From now on the queue is run."""
        self.engines(live).create(live.spec, live.hub.space(live.vmid), live.host)
        self.live.append(live)
        self._board.hardware.event("create queue", queue=live.spec.queue_id, kind=live.spec.kind)

    def stop(self, live: Live) -> None:
        """The queue is gone, whatever it was doing."""
        if live in self.live:
            self.live.remove(live)
            self.engines(live).hung.discard(live.spec.queue_id)
            self.engines(live).destroy(live.spec.queue_id)
            self._late = [(other, value) for other, value in self._late if other is not live]
            self._board.hardware.event("destroy queue", queue=live.spec.queue_id)

    def ring(self, live: Live, value: int) -> None:
        """A write pointer has arrived."""
        self._check_ring(live)
        live.rung = value
        self._late.append((live, value))
        if not self._board.hardware.options.late:
            self.pump()

    def _check_ring(self, live: Live) -> None:
        """A ring in VRAM, which the host writes through the BAR, needs HDP flushed first; work of
        any ring uses code and page tables that are in VRAM."""
        run = live.hub.tlb(live.vmid).lookup(live.spec.ring_va)
        if run is not None and run.pool is self._board.vram:
            self._board.launched(live.spec.queue_id, live.name)
        else:
            self._board.need_flushed(live.name)

    def pump(self) -> bool:
        """Run what can run; whether anything moved."""
        if self._deep or not (self.live or self._late):
            return False
        self._deep = 1
        try:
            return self._run()
        finally:
            self._deep = 0

    def _run(self) -> bool:
        moved = False
        for hub in self._hubs:
            hub.before_queues_run()
        for live in self.live:
            live.spec.active = not live.why_not()
        self._poll()
        for _ in range(_MAX_ROUNDS):
            late, self._late = self._late, []
            for live, value in late:
                self.engines(live).doorbell(live.spec.queue_id, value)
            again = [engines.pump() for engines in list(self._engines.values())]
            if not late and not any(again):
                break
            moved = True
        for hub in self._hubs:
            hub.after_queues_ran()
        return moved

    def _poll(self) -> None:
        """Write pointers that moved in memory, where engines poll them."""
        for live in self.live:
            if not (live.spec.active and live.spec.wptr_va and live.polls()):
                continue
            run = live.hub.tlb(live.vmid).lookup(live.spec.wptr_va)
            if run is None or not run.readable:
                continue
            off = run.offset + live.spec.wptr_va - run.start
            value = int.from_bytes(run.pool.bytes[off : off + _POINTER_BYTES].tobytes(), "little")
            value -= live.spec.kind == "aql"  # which counts packets, and rings with the last one
            if value > max(live.rung, live.spec.start - 1, 0):
                live.rung = value
                self._late.append((live, value))

    # What registers say of a queue

    def idle(self, live: Live) -> bool:
        """Whether it has done all it was told."""
        return self.engines(live).idle(live.spec.queue_id)

    def stuck(self, live: Live) -> bool:
        """Whether it hangs, or a fault has stopped it."""
        engines, queue_id = self.engines(live), live.spec.queue_id
        return queue_id in engines.hung or engines.stopped(queue_id)

    def read_pointer(self, live: Live) -> int:
        """How far it has come."""
        return self.engines(live).read_pointer(live.spec.queue_id)

    def hang(self, live: Live) -> None:
        """The fault panel: it makes no progress from now on."""
        self.engines(live).hung.add(live.spec.queue_id)


def mapped(hub: VmHub, vmid: int, va: int, nbytes: int, *, write: bool) -> str:
    """Why an agent could not use a piece of memory; empty when it could."""
    tlb = hub.tlb(vmid)
    for at in {va, va + nbytes - 1}:
        run = tlb.lookup(at)
        if run is None:
            return str(MemoryFault("unmapped", "write" if write else "read", at))
        if not (run.writable if write else run.readable):
            return f"no permission to {'write' if write else 'read'} {at:#x}"
    return ""
