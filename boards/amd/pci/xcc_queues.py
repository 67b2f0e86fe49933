"""gfx942's queues of the kernel: on each XCC an interface queue (KIQ), and what it maps.

To amdgpu each XCC is a graphics block of its own: the same queue number is another queue on each,
and packets name an XCC's registers as the first one's. KFD's own interface queue (HIQ) is one ring
that all XCCs read; here its packets are executed once, and boards/amd/pci/hws.py runs the processes
that they name. What the firmware does is modelled from the driver's side.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from boards.amd.cp import kernel
from boards.amd.cp.engine_types import QueueSpec
from boards.amd.pci import mqd, scheduler
from boards.amd.pci.board import Board
from boards.amd.pci.compute import DOORBELL_BYTES, Compute
from boards.amd.pci.grbm import Queue
from boards.amd.pci.hqd import Hqd
from boards.amd.pci.hws import Hws
from boards.amd.pci.interrupts import Interrupts
from boards.amd.pci.kernel_queues import KernelQueues
from boards.amd.pci.queue_host import Live, QueueHost, Queues
from boards.amd.pci.register_file import Block
from boards.amd.pci.vm_hub import VMIDS

_COMPUTE_ME, _KIQ_ME = 1, 2
"""src: amdgpu_gfx.c amdgpu_gfx_kiq_acquire(): the last pipe of the second engine that works"""
_LOCAL = ((0x2000, 0x3400), (0xA000, 0x1_0000))
"""Registers of the XCC that a packet is executed on, by segment, in dwords.
src: gfx_v9_4_3.c XCC_REG_RANGE_0_LOW to XCC_REG_RANGE_1_HIGH"""


@dataclass(frozen=True, slots=True)
class XccAccess:
    """`boards.amd.cp.kernel.Kernel` of one role on one XCC."""

    role: str
    board: Board
    queues: XccQueues
    block: Block

    def _own(self, address_dw: int) -> int:
        """Where a register is that a packet names."""
        for base, (first, end) in zip(self.block.bases_dw, _LOCAL, strict=True):
            if first <= address_dw < end:
                return address_dw - first + base
        return address_dw

    def read_register(self, address_dw: int) -> int:
        with self.board.by_engine(self.role):
            return self.board.registers.read(self._own(address_dw))

    def write_register(self, address_dw: int, value: int) -> None:
        with self.board.by_engine(self.role):
            self.board.registers.write(self._own(address_dw), value)

    def invalidate_tlbs(self, pasid: int, *, all_hubs: bool) -> None:
        self.queues.kernel.invalidate(pasid, all_hubs=all_hubs)

    def invalidate_vmids(self, vmids: int) -> None:
        for vmid in range(VMIDS):
            if vmids >> vmid & 1:
                self.queues.kernel.hub.invalidate(vmid)

    def map_queue(self, engine: str, pipe: int, queue: int, mqd_va: int) -> str:
        return self.queues.map_queue(self.block, engine, pipe, queue, mqd_va)

    def unmap_queue(self, engine: str, doorbell_dw: int) -> str:
        return self.queues.unmap_queue(self.block, engine, doorbell_dw)

    def schedule(self, opcode: int, words: tuple[int, ...]) -> str:
        return self.queues.hws.order(opcode, words)


@dataclass(eq=False, slots=True)
class _Mapped:
    """A queue that runs, and the registers of it on each XCC that has it."""

    role: str
    live: Live
    places: list[Hqd] = field(default_factory=list)


class XccQueues:
    """Queues by doorbell."""

    def __init__(
        self, board: Board, compute: Compute, kernel_queues: KernelQueues, queues: Queues,
        interrupts: Interrupts, hws: Hws,
    ) -> None:  # fmt: skip
        self.board, self.kernel, self.hws = board, kernel_queues, hws
        self._compute, self._queues, self._interrupts = compute, queues, interrupts
        self._mapped: dict[int, _Mapped] = {}
        """By doorbell, in dwords."""
        compute.other_engine, compute.other_stopped = self._activated, self._stopped
        board.on_reset(self._mapped.clear, core=True)

    # A KIQ, whose registers amdgpu writes itself, and while its engine is still halted
    # (gfx_v9_4_3_xcc_cp_resume()): that it runs is asked for when it is given work

    def _activated(self, hqd: Hqd) -> str:
        if hqd.key[0] != _KIQ_ME or not scheduler.named(hqd):
            return "it is neither a compute queue nor the one that RLC_CP_SCHEDULERS names"
        self.board.need_flushed(f"queue {hqd.key} of {hqd.block}, its MQD")
        for problem in hqd.problems(self.kernel.hub):
            self.board.find("HQD", f"queue {hqd.key} of {hqd.block} is activated: {problem}")
        if hqd.doorbell_dw < 0:
            return "it has no doorbell"
        return self._add(kernel.KIQ, hqd)

    def _stopped(self, hqd: Hqd) -> None:
        """A queue of the second engine is dequeued or switched off by its registers."""
        for doorbell_dw, one in list(self._mapped.items()):
            if hqd in one.places:
                self._leave(doorbell_dw, one, [hqd])

    # Queues that a KIQ maps

    def map_queue(self, block: Block, engine: str, pipe: int, queue: int, mqd_va: int) -> str:
        """Load a queue of an XCC from its MQD; why it cannot be."""
        if engine not in (kernel.COMPUTE, kernel.HIQ):
            return f"{engine} has no engine here"
        data = self.kernel.read(mqd_va, mqd.MQD_BYTES)
        if data is None:
            return f"there is no MQD at {mqd_va:#x}"
        key: Queue = (_COMPUTE_ME if engine == kernel.COMPUTE else _KIQ_ME, pipe, queue)
        hqd = Hqd(block, key)
        if hqd.active:
            return f"queue {key} of {block} is mapped already"
        mqd.load_compute(block, key, mqd.words_of(data), None)
        if engine == kernel.HIQ:  # KFD's MQD has it 0: see mqd.load_compute()
            block.put_field("CP_HQD_PQ_DOORBELL_CONTROL", "DOORBELL_EN", 1, key)
        for problem in hqd.problems(self.kernel.hub):
            self.board.find("HQD", f"queue {key} of {block} is mapped: {problem}")
        if hqd.vmid or hqd.doorbell_dw < 0:
            return f"VMID {hqd.vmid}, doorbell {hqd.doorbell_dw}"
        block.put("CP_HQD_ACTIVE", 1, key)
        return self._add(engine, hqd)

    def unmap_queue(self, block: Block, engine: str, doorbell_dw: int) -> str:
        """Take a queue from an XCC; why there is none. The HIQ, too, goes as a compute queue.

        src: amdgpu_amdkfd.c amdgpu_amdkfd_unmap_hiq(): a ring of AMDGPU_RING_TYPE_COMPUTE
        """
        one = self._mapped.get(doorbell_dw)
        places = [] if one is None else [hqd for hqd in one.places if hqd.block is block]
        if one is None or not places or kernel.KIQ in (engine, one.role):
            return f"no {engine} queue of {block} has doorbell {doorbell_dw}"
        self._leave(doorbell_dw, one, places)
        return ""

    def _add(self, role: str, hqd: Hqd) -> str:
        one = self._mapped.get(hqd.doorbell_dw)
        if one is None:
            one = self._mapped[hqd.doorbell_dw] = _Mapped(role, self._start(role, hqd))
        elif (one.role, role) != (kernel.HIQ, kernel.HIQ) or (
            one.live.spec.ring_va != hqd.spec(0).ring_va
        ):
            return f"doorbell {hqd.doorbell_dw} has a queue"
        one.places.append(hqd)
        return ""

    def _start(self, role: str, hqd: Hqd) -> Live:
        me, pipe, queue = hqd.key
        spec: QueueSpec = hqd.spec(self._queues.next_id())
        spec.kernel = XccAccess(role, self.board, self, hqd.block)
        xcc = hqd.block.instance
        host = QueueHost(
            self.board, replace(self.board.chip, xccs=1), lambda: (0, 0),
            partial(self._interrupts.end_of_pipe, 0, me, pipe, queue, xcc=xcc),
            partial(self._interrupts.fault, 0),
        )  # fmt: skip
        name = f"{role} queue at doorbell {hqd.doorbell_dw} of {hqd.block}"
        live = Live(
            name, 0, self.kernel.hub, spec, host, lambda: self._compute.why_not(xcc, pipe),
            lambda: False,
        )  # fmt: skip
        self._queues.start(live)
        return live

    def _leave(self, doorbell_dw: int, one: _Mapped, places: list[Hqd]) -> None:
        for hqd in places:
            one.places.remove(hqd)
            hqd.block.put("CP_HQD_ACTIVE", 0, hqd.key)
        if not one.places:
            self._queues.stop(one.live)
            del self._mapped[doorbell_dw]

    def doorbell(self, index: int, nbytes: int, value: int) -> bool:
        """A store that was routed to the graphics blocks; whether one of these queues listens."""
        one = self._mapped.get(index)
        if one is None:
            self.hws.running.wake(index)
            return False
        if nbytes != DOORBELL_BYTES:
            self.board.find("doorbell", f"{one.live.name}: {nbytes} bytes are stored, not 8")
        why = one.live.why_not()
        if why:
            self.board.find("MEC", f"{one.live.name} is given work, and cannot run: {why}")
        self._queues.ring(one.live, value)
        return True
