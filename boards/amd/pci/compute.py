"""Compute queues: from CP_HQD_ACTIVE to packets that run, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from boards.amd.pci.board import Board
from boards.amd.pci.grbm import Grbm, Queue
from boards.amd.pci.hqd import Hqd
from boards.amd.pci.interrupts import Interrupts
from boards.amd.pci.mec import COMPUTE_ME, Mec
from boards.amd.pci.queue_host import Live, QueueHost, Queues
from boards.amd.pci.register_file import Block
from boards.amd.pci.vm_hub import VmHub

_ACTIVE, _DEQUEUE = "CP_HQD_ACTIVE", "CP_HQD_DEQUEUE_REQUEST"
_FREE = (_ACTIVE, _DEQUEUE, "CP_HQD_PQ_RPTR")
"""Registers that may be written while the queue is active."""
_DRAIN, _RESET = 1, 2
"""src: amdgpu_amdkfd_gfx_v9.c enum hqd_dequeue_request_type"""
DOORBELL_BYTES = 8


@dataclass(slots=True)
class _Part:
    """One instance of the graphics block."""

    block: Block
    grbm: Grbm
    mec: Mec


@dataclass(slots=True)
class _Active:
    """A queue that is active on some instances."""

    xccs: list[int] = field(default_factory=list)
    live: Live | None = None
    for_kernel: bool = False
    """A scheduler has mapped it for the kernel: no driver wrote its registers."""
    trap_va: int = 0
    """Memory of the kernel's trap handler, for queues of a process that a scheduler maps."""
    leaving: int = 0
    """The dequeue request that waits to be fulfilled."""


class Compute:
    """All HQDs. A queue on several XCCs is one queue whose dispatches they share."""

    def __init__(
        self, board: Board, parts: Sequence[tuple[Block, Grbm, Mec]], hub: VmHub,
        queues: Queues, interrupts: Interrupts,
    ) -> None:  # fmt: skip
        self._board, self._hub, self._queues, self._interrupts = board, hub, queues, interrupts
        self._parts = [_Part(*part) for part in parts]
        self._active: dict[Queue, _Active] = {}
        self.stuck: set[Queue] = set()
        """The fault panel: only a reset of the whole GPU ends these."""
        self.other_engine: Callable[[Hqd], str] = lambda hqd: "there are compute queues alone"
        """Takes queues of other micro engines; why it cannot."""
        self.other_stopped: Callable[[Hqd], None] = lambda hqd: None
        """Called when such a queue is dequeued or switched off."""
        self.kernel: object = None
        """What the kernel's own compute queues reach beyond a process's."""
        for number in range(len(self._parts)):
            self._attach(number)
        board.on_pump(self._leave)
        board.on_reset(self._forget, core=True)

    def _forget(self) -> None:
        self._active.clear()
        self.stuck.clear()

    def _attach(self, xcc: int) -> None:
        block = self._parts[xcc].block
        for name in block.table:
            if name.startswith(("CP_HQD_", "CP_MQD_")) and name not in _FREE:
                block.on_write(name, partial(self._touched, xcc, name))
        # src: amdgpu_amdkfd_gfx_v11.c hqd_load_v11() and _v9.c kgd_gfx_v9_hqd_load() copy an MQD to
        # these registers dword by dword; tinygrad does so on gfx12 too.
        last = block.address_dw("CP_HQD_PQ_WPTR_HI")
        self._board.registers.holes.update(range(block.address_dw("CP_MQD_BASE_ADDR"), last))
        block.on_write(_ACTIVE, partial(self._activated, xcc))
        block.on_write(_DEQUEUE, partial(self._dequeued, xcc))
        block.on_read("CP_HQD_PQ_RPTR", partial(self._read_pointer, xcc))

    def _selected(self, xcc: int) -> Hqd:
        part = self._parts[xcc]
        return Hqd(part.block, part.grbm.queue())

    def _touched(self, xcc: int, name: str, value: int) -> None:
        hqd = self._selected(xcc)
        if hqd.active:
            self._board.find("HQD", f"{name} of {_title(hqd)} is written while it is active")

    def _read_pointer(self, xcc: int) -> int:
        hqd = self._selected(xcc)
        live = self._find(hqd.key)
        if live is None:
            return hqd.get("CP_HQD_PQ_RPTR")
        return self._queues.read_pointer(live) % (live.spec.ring_bytes // 4)

    def _find(self, key: Queue) -> Live | None:
        return self._active[key].live if key in self._active else None

    # Activation

    def _activated(self, xcc: int, value: int) -> None:
        hqd = self._selected(xcc)
        if hqd.key[0] != COMPUTE_ME:
            self._other(hqd, on=bool(value & 1))
            return
        active = self._active.get(hqd.key)
        was = active is not None and xcc in active.xccs
        if value & 1 and not was:
            self._activate(xcc, hqd)
        elif not value & 1 and was:
            live = self._find(hqd.key)
            if live is not None and not self._queues.idle(live):
                self._board.find("HQD", f"{_title(hqd)} is switched off while it has work")
            self._deactivate(hqd.key, xcc)

    def _other(self, hqd: Hqd, *, on: bool) -> None:
        """CP_HQD_ACTIVE of a queue of another micro engine."""
        why = self.other_engine(hqd) if on else ""
        if why:
            self._board.find("HQD", f"{_title(hqd)} is activated: {why}")
        if why or not on:
            self._other_off(hqd)

    def _other_off(self, hqd: Hqd) -> None:
        self.other_stopped(hqd)
        hqd.block.put(_ACTIVE, 0, hqd.key)
        hqd.block.put(_DEQUEUE, 0, hqd.key)

    def _activate(
        self, xcc: int, hqd: Hqd, *, chosen_vmid: bool = False, for_kernel: bool = False,
        trap_va: int = 0,
    ) -> None:  # fmt: skip
        find, mec = self._board.find, self._parts[xcc].mec
        _, pipe, _ = hqd.key
        self._board.need_flushed(f"{_title(hqd)}, its MQD")
        why = mec.why_not(pipe)
        if why:
            find("HQD", f"{_title(hqd)} is activated, and its engine does not run: {why}")
        for problem in hqd.problems(self._hub, chosen_vmid=chosen_vmid):
            find("HQD", f"{_title(hqd)} is activated: {problem}")
        if hqd.doorbell_dw < 0:
            find("HQD", f"{_title(hqd)} has no doorbell")
        elif not xcc and not chosen_vmid and not mec.serves(hqd.doorbell_dw):
            find("HQD", f"{_title(hqd)}: doorbell {hqd.doorbell_dw} is not in the engine's range")
        active = self._active.setdefault(hqd.key, _Active())
        if active.live is not None:
            find("HQD", f"{_title(hqd)} joins a queue that has begun to run without it")
            return
        self._compare(active, hqd)
        if active.xccs and self._board.options.firmware and not self._board.partitions:
            find("HQD", f"{_title(hqd)} is of several XCCs, and no partition was made of them")
        active.xccs.append(xcc)
        active.for_kernel, active.trap_va = for_kernel, trap_va

    def _compare(self, active: _Active, hqd: Hqd) -> None:
        """A queue is the same on all XCCs that it is active on."""
        for xcc in active.xccs[:1]:
            first = Hqd(self._parts[xcc].block, hqd.key)
            if first.spec(0) != hqd.spec(0) or first.vmid != hqd.vmid:
                self._board.find("HQD", f"{_title(hqd)} is another queue than that of XCC {xcc}")

    def _start(self, key: Queue, active: _Active) -> Live:
        """Its first work has come: from now on the engines have it."""
        part = self._parts[active.xccs[0]]
        hqd = Hqd(part.block, key)
        _, pipe, _ = key
        chip = replace(self._board.chip, xccs=len(active.xccs))
        host = QueueHost(
            self._board, chip, hqd.apertures,
            partial(self._end_of_pipe, hqd), partial(self._fault, hqd),
            partial(self._interrupts.message, hqd.vmid),
        )  # fmt: skip
        spec = hqd.spec(self._queues.next_id())
        spec.kernel_trap_va = active.trap_va if _traps(hqd) else 0
        if self._of_kernel(hqd, active):
            spec.kernel = self.kernel
        active.live = Live(
            _title(hqd), hqd.vmid, self._hub, spec, host,
            lambda: self._why_not(active, pipe),
            lambda: bool(part.block.field("CP_PQ_WPTR_POLL_CNTL", "EN")),
        )  # fmt: skip
        self._queues.start(active.live)
        return active.live

    def _fault(self, hqd: Hqd, error: Exception) -> None:
        """Of an s_trap only the handler, if there is one, reports anything."""
        me, pipe, queue = hqd.key
        live = self._find(hqd.key)
        if getattr(error, "kind", "") == "trap" and live is not None and live.spec.kernel_trap_va:
            return
        self._interrupts.fault(
            hqd.vmid, error, ring_id=pipe | me << 2 | queue << 4,
            aql_doorbell_dw=hqd.doorbell_dw if hqd.is_aql else -1,
        )  # fmt: skip

    @staticmethod
    def _of_kernel(hqd: Hqd, active: _Active) -> bool:
        """A queue that a scheduler has mapped for the kernel; one mapped by registers is not.

        src: gfx_v11_0_compute_mqd_init(), which sets KMD_QUEUE; no SH_MEM_BASES are set for
        VMID 0, whose queues start no waves (gfx_v11_0_constants_init() begins with VMID 8)
        """
        marked = bool(hqd.field("CP_HQD_PQ_CONTROL", "KMD_QUEUE"))
        return marked and active.for_kernel

    def _why_not(self, active: _Active, pipe: int) -> str:
        reasons = (self._parts[xcc].mec.why_not(pipe) for xcc in active.xccs)
        return next((why for why in reasons if why), "")

    def why_not(self, xcc: int, pipe: int) -> str:
        """What keeps a pipe of an instance's compute engine from running."""
        return self._parts[xcc].mec.why_not(pipe)

    def _end_of_pipe(self, hqd: Hqd, event_id: int) -> None:
        """src: gfx_v11_0_set_compute_eop_interrupt_state(), kgd_gfx_v9_init_interrupts()"""
        me, pipe, queue = hqd.key
        name, bit = f"CP_ME{me}_PIPE{pipe}_INT_CNTL", "TIME_STAMP_INT_ENABLE"
        if not hqd.block.field(name, bit):
            self._board.find("interrupt not enabled", f"{name}.{bit}, and a queue raises it")
            return
        self._interrupts.end_of_pipe(hqd.vmid, me, pipe, queue, event_id)

    # What a scheduler does, on all instances

    def activate(
        self, key: Queue, *, chosen_vmid: bool, for_kernel: bool, trap_va: int = 0
    ) -> None:
        """A queue whose registers were loaded begins to listen to its doorbell.

        `chosen_vmid`: it is a process's, and the scheduler has chosen its VMID. Such a queue's
        doorbell may be outside of CP_MEC_DOORBELL_RANGE: amdgpu ends that behind its own
        queues, and processes' doorbells are further up. src: gfx_v11_0_cp_set_doorbell_range()
        """
        how = {"chosen_vmid": chosen_vmid, "for_kernel": for_kernel}
        for xcc, part in enumerate(self._parts):
            part.block.put(_ACTIVE, 1, key)
            self._activate(xcc, Hqd(part.block, key), trap_va=trap_va, **how)

    def deactivate(self, doorbell_dw: int) -> Queue | None:
        """The queue with a doorbell is taken from its engine; which it was."""
        for key, active in list(self._active.items()):
            if Hqd(self._parts[active.xccs[0]].block, key).doorbell_dw == doorbell_dw:
                for xcc in list(active.xccs):
                    self._deactivate(key, xcc)
                return key
        return None

    def take(self, doorbell_dw: int) -> int:
        """The same; how far the queue had come, in its own units."""
        for key, active in self._active.items():
            if Hqd(self._parts[active.xccs[0]].block, key).doorbell_dw == doorbell_dw:
                read = self._reached(key, active)
                self.deactivate(doorbell_dw)
                return read
        return 0

    def _reached(self, key: Queue, active: _Active) -> int:
        if active.live is not None:
            return self._queues.read_pointer(active.live)
        return Hqd(self._parts[active.xccs[0]].block, key).spec(0).start

    def catch_up(self, doorbell_dw: int, written: int) -> None:
        """A queue that is mapped with work in it goes on, as if its doorbell had rung."""
        for key, active in list(self._active.items()):
            hqd = Hqd(self._parts[active.xccs[0]].block, key)
            if hqd.doorbell_dw == doorbell_dw and written > hqd.spec(0).start:
                live = active.live or self._start(key, active)
                self._queues.ring(live, written - hqd.is_aql)

    # Doorbells

    def doorbell(self, index: int, nbytes: int, value: int) -> bool:
        """A store that was routed here; whether a queue listens."""
        for key, active in list(self._active.items()):
            hqd = Hqd(self._parts[active.xccs[0]].block, key)
            if hqd.doorbell_dw != index:
                continue
            if nbytes != DOORBELL_BYTES:
                self._board.find("doorbell", f"{_title(hqd)}: {nbytes} bytes are stored, not 8")
            why = hqd.waves_problem()
            if why and not self._of_kernel(hqd, active):
                self._board.find("SH_MEM", f"{_title(hqd)} is given work: {why}")
            stopped = self._why_not(active, key[1])
            if stopped:
                self._board.find("MEC", f"{_title(hqd)} is given work, and cannot run: {stopped}")
            if active.leaving:
                self._board.find("doorbell", f"{_title(hqd)} is being dequeued")
                return True
            live = active.live or self._start(key, active)
            self._queues.ring(live, value)
            return True
        return False

    # The end of a queue

    def _dequeued(self, xcc: int, value: int) -> None:
        hqd = self._selected(xcc)
        request = hqd.field(_DEQUEUE, "DEQUEUE_REQ")
        if not request:
            return
        if hqd.key[0] != COMPUTE_ME:
            self._other_off(hqd)
            return
        if hqd.key not in self._active or xcc not in self._active[hqd.key].xccs:
            hqd.block.put(_DEQUEUE, 0, hqd.key)
            return
        if request not in (_DRAIN, _RESET):
            self._board.find("HQD", f"{_title(hqd)}: dequeue request {request} is not known here")
            return
        self._active[hqd.key].leaving = request
        self._leave()

    def _leave(self) -> bool:
        """Requests to dequeue that can be fulfilled; whether any was."""
        gone = False
        for key, active in list(self._active.items()):
            stays = key in self.stuck or (
                active.leaving == _DRAIN
                and active.live is not None
                and self._queues.stuck(active.live)
            )
            if not active.leaving or stays:
                continue
            gone = True
            for xcc in list(active.xccs):
                if Hqd(self._parts[xcc].block, key).field(_DEQUEUE, "DEQUEUE_REQ"):
                    self._deactivate(key, xcc)
            active.leaving = 0
        return gone

    def _deactivate(self, key: Queue, xcc: int) -> None:
        active, block = self._active[key], self._parts[xcc].block
        if active.live is not None:
            reached = self._queues.read_pointer(active.live) % (active.live.spec.ring_bytes // 4)
            block.put("CP_HQD_PQ_RPTR", reached, key)
            self._queues.stop(active.live)
            active.live = None
        active.xccs.remove(xcc)
        block.put(_ACTIVE, 0, key)
        block.put(_DEQUEUE, 0, key)
        if not active.xccs:
            del self._active[key]

    def soft_reset(self, xcc: int) -> None:
        """The command processor of an instance is reset: its queues are gone."""
        for key in [key for key, active in self._active.items() if xcc in active.xccs]:
            if key not in self.stuck:
                self._deactivate(key, xcc)
        self._parts[xcc].mec.reset()

    # For the fault panel, and for status registers

    def queues(self) -> dict[Queue, Live | None]:
        """Active queues by (me, pipe, queue)."""
        return {key: active.live for key, active in self._active.items()}

    def hang(self, key: Queue, *, for_good: bool = False) -> None:
        """A queue makes no progress; with `for_good` it ignores being reset too."""
        active = self._active[key]
        self._queues.hang(active.live or self._start(key, active))
        if for_good:
            self.stuck.add(key)

    def idle(self, key: Queue) -> bool:
        """Whether a queue has no work, or is not there."""
        active = self._active.get(key)
        return active is None or active.live is None or self._queues.idle(active.live)

    @property
    def busy(self) -> bool:
        """Whether any queue has work."""
        lives = (active.live for active in self._active.values())
        return any(live is not None and not self._queues.idle(live) for live in lives)


def _traps(hqd: Hqd) -> bool:
    """Whether waves of its VMID enter a trap handler.

    src: gfx_v11_0_init_compute_vmid() "Enable trap for each kfd vmid". ADD_QUEUE of gfx11.0.0 to
    11.0.3 comes without trap_en (kfd_dbg_has_cwsr_workaround()), and waves of a 7900 XTX trap all
    the same: ROCm issue 5025, HSA_STATUS_ERROR_EXCEPTION under ROCr
    """
    name = "SPI_GDBG_PER_VMID_CNTL"
    return hqd.block.has(name) and bool(hqd.block.field(name, "TRAP_EN", hqd.vmid))


def _title(hqd: Hqd) -> str:
    me, pipe, queue = hqd.key
    return f"queue {me}.{pipe}.{queue} of {hqd.block}"
