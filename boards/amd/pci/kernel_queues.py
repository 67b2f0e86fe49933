"""The kernel's own queues beside compute: the interface queue (KIQ), graphics, the MES ring.

KIQ and MES are micro engine 3, pipes 1 and 0 (amdgpu_mes.h AMDGPU_MES_KIQ_PIPE). gfx942's KIQ is a
compute queue that RLC_CP_SCHEDULERS names. What their firmware does is modelled from the driver's
side: the packets that amdgpu sends, and what it then expects of registers and memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from boards.amd.cp import kernel
from boards.amd.cp.engine_types import QueueSpec
from boards.amd.pci import mqd, scheduler
from boards.amd.pci.board import Board
from boards.amd.pci.compute import DOORBELL_BYTES, Compute
from boards.amd.pci.grbm import Queue
from boards.amd.pci.hqd import Hqd
from boards.amd.pci.interrupts import Interrupts
from boards.amd.pci.queue_host import Live, QueueHost, Queues
from boards.amd.pci.register_file import Block
from boards.amd.pci.scheduler import KIQ_PIPE, MES_PIPE, SCHEDULER_ME
from boards.amd.pci.sdma import Sdma
from boards.amd.pci.vm_hub import VMIDS, VmHub
from boards.amd.wave.types import MemoryFault


@dataclass(frozen=True, slots=True)
class Access:
    """`boards.amd.cp.kernel.Kernel` of one role."""

    role: str
    _queues: KernelQueues

    def read_register(self, address_dw: int) -> int:
        with self._queues.board.by_engine(self.role):
            return self._queues.board.registers.read(address_dw)

    def write_register(self, address_dw: int, value: int) -> None:
        with self._queues.board.by_engine(self.role):
            self._queues.board.registers.write(address_dw, value)

    def invalidate_tlbs(self, pasid: int, *, all_hubs: bool) -> None:
        self._queues.invalidate(pasid, all_hubs=all_hubs)

    def invalidate_vmids(self, vmids: int) -> None:
        for vmid in range(VMIDS):
            if vmids >> vmid & 1:
                self._queues.hub.invalidate(vmid)

    def map_queue(self, engine: str, pipe: int, queue: int, mqd_va: int) -> str:
        return self._queues.map_queue(engine, pipe, queue, mqd_va)

    def unmap_queue(self, engine: str, doorbell_dw: int) -> str:
        return self._queues.unmap_queue(engine, doorbell_dw)

    def schedule(self, opcode: int, words: tuple[int, ...]) -> str:
        return "processes are the MES's"


class KernelQueues:
    """Queues by doorbell; `mes_ring` is called with the scheduler's ring when it is mapped."""

    def __init__(
        self, board: Board, compute: Compute, sdma: Sdma, hubs: tuple[VmHub, VmHub], queues: Queues,
        interrupts: Interrupts,
    ) -> None:  # fmt: skip
        self.board, self._compute, self._queues = board, compute, queues
        self.hub, self.memory_hub = hubs
        self._interrupts = interrupts
        self._live: dict[int, tuple[str, Live]] = {}
        """By doorbell, in dwords."""
        self._scheduling: dict[Queue, int] = {}
        """Queues of the schedulers that are active, and their doorbells."""
        self.mes_ring: Callable[[QueueSpec, int], None] = lambda spec, doorbell_dw: None
        self.mes_gone: Callable[[int], None] = lambda doorbell_dw: None
        """Called with the doorbell of a ring that `mes_ring` was given, when it is gone."""
        compute.kernel = sdma.kernel = Access(kernel.COMPUTE, self)
        compute.other_engine = self._activated
        compute.other_stopped = lambda hqd: self._stopped(hqd.key)
        board.on_reset(self._forget, core=True)

    def _forget(self) -> None:
        self._live.clear()
        self._scheduling.clear()

    @property
    def block(self) -> Block:
        """The first instance of the graphics block."""
        return self.hub.first

    def _activated(self, hqd: Hqd) -> str:
        """CP_HQD_ACTIVE of a queue that is no compute queue; why it cannot be."""
        me, pipe, _ = hqd.key
        schedules = me == SCHEDULER_ME and pipe in (MES_PIPE, KIQ_PIPE)
        if not schedules or self.board.chip.family == "gfx9":
            return "it is neither a compute queue nor one of the schedulers'"
        self.board.need_flushed(f"queue {hqd.key}, its MQD")
        stopped = scheduler.problems(self.board, hqd)
        for problem in [*stopped, *hqd.problems(self.hub, compute=False)]:
            self.board.find("HQD", f"queue {hqd.key} is activated: {problem}")
        if hqd.doorbell_dw < 0:
            return "it has no doorbell"
        self._stopped(hqd.key)
        self._scheduling[hqd.key] = hqd.doorbell_dw
        # src: amdgpu_mes.c, enable_uni_mes of gfx12: both pipes take frames, and none packets
        if pipe == MES_PIPE or self.board.chip.family == "gfx12":
            self.mes_ring(hqd.spec(self._queues.next_id()), hqd.doorbell_dw)
        else:
            self._start(kernel.KIQ, hqd.spec(self._queues.next_id()), hqd.doorbell_dw, 0)
        return ""

    def _stopped(self, key: Queue) -> None:
        """A scheduler's queue is dequeued, or switched off: it has no doorbell any more."""
        doorbell_dw = self._scheduling.pop(key, None)
        if doorbell_dw is None:
            return
        self.mes_gone(doorbell_dw)
        found = self._live.pop(doorbell_dw, None)
        if found is not None:
            self._queues.stop(found[1])

    def _start(self, role: str, spec: QueueSpec, doorbell_dw: int, vmid: int) -> None:
        spec.kernel = Access(role, self)
        host = QueueHost(
            self.board, self.board.chip, lambda: (0, 0),
            lambda event_id: self._interrupt(role, vmid, event_id),
            lambda error: self._interrupts.fault(vmid, error),
        )  # fmt: skip
        name = f"{role} queue at doorbell {doorbell_dw}"
        live = Live(name, vmid, self.hub, spec, host, lambda: "", lambda: False)
        self._live[doorbell_dw] = role, live
        self._queues.start(live)

    def _interrupt(self, role: str, vmid: int, event_id: int) -> None:
        """src: gfx_v11_0_set_gfx_eop_interrupt_state(): CP_INT_CNTL_RING0"""
        register, bit = "CP_INT_CNTL_RING0", "TIME_STAMP_INT_ENABLE"
        if role == kernel.GRAPHICS and not self.block.field(register, bit):
            self.board.find("interrupt not enabled", f"{register}.{bit}, and the ring raises it")
            return
        self._interrupts.end_of_pipe(vmid, 0, 0, 0, event_id)

    def doorbell(self, index: int, nbytes: int, value: int) -> bool:
        """A store that was routed to the graphics block; whether one of these queues listens."""
        found = self._live.get(index)
        if found is None:
            return False
        if nbytes != DOORBELL_BYTES:
            self.board.find("doorbell", f"{found[1].name}: {nbytes} bytes are stored, not 8")
        self._queues.ring(found[1], value)
        return True

    # What packets do

    def read(self, va: int, nbytes: int) -> bytes | None:
        """Memory of VMID 0; None where nothing is mapped."""
        try:
            agent = self.hub.space(0).agent("scheduler")
            agent.acquire()
            return agent.read(va, nbytes)
        except MemoryFault:
            return None

    def write(self, va: int, data: bytes) -> bool:
        """The same for a write; whether it arrived."""
        try:
            agent = self.hub.space(0).agent("scheduler")
            agent.write(va, data)
            agent.release()
        except MemoryFault:
            return False
        return True

    def invalidate(self, pasid: int, *, all_hubs: bool) -> None:
        """Forget translations of a process; of everybody for PASID 0."""
        table = self.board.block("OSSSYS")
        for vmid in range(VMIDS):
            if pasid and (not vmid or table.get(f"IH_VMID_{vmid}_LUT") != pasid):
                continue
            self.hub.invalidate(vmid)
            if all_hubs:
                self.memory_hub.invalidate(vmid)

    def map_queue(
        self, engine: str, pipe: int, queue: int, mqd_va: int, vmid: int | None = None, *,
        kfd: bool = False, trap_va: int = 0,
    ) -> str:  # fmt: skip
        """Load a queue from its MQD; why it cannot be. `vmid` is that of a process, and `kfd` says
        that the process is one of KFD's: such a queue is never the kernel's own. `trap_va` is
        the memory of the kernel's trap handler; 0 for none."""
        data = self.read(mqd_va, mqd.MQD_BYTES)
        if data is None:
            return f"there is no MQD at {mqd_va:#x}"
        words = mqd.words_of(data)
        if engine == kernel.COMPUTE:
            return self._map_compute((1, pipe, queue), mqd_va, vmid, kfd=kfd, trap_va=trap_va)
        if engine == kernel.GRAPHICS:
            made = mqd.graphics(words, self._queues.next_id())
            self._start(kernel.GRAPHICS, made.spec, made.doorbell_dw, vmid or 0)
            return ""
        key = SCHEDULER_ME, MES_PIPE, queue
        mqd.load_compute(self.block, key, words, None)
        hqd = Hqd(self.block, key)
        why = self._activated(hqd)
        self.block.put("CP_HQD_ACTIVE", int(not why), key)
        return why

    def _map_compute(
        self, key: Queue, mqd_va: int, vmid: int | None, *, kfd: bool, trap_va: int
    ) -> str:
        if key in self._compute.queues():
            return f"queue {key} is mapped already"
        for block, own_va in self.mqds(mqd_va):
            data = self.read(own_va, mqd.MQD_BYTES)
            if data is None:
                return f"there is no MQD at {own_va:#x}"
            mqd.load_compute(block, key, mqd.words_of(data), vmid)
        hqd = Hqd(self.block, key)
        of_kernel = not kfd and (vmid is not None or not hqd.vmid)
        self._compute.activate(
            key, chosen_vmid=vmid is not None, for_kernel=of_kernel, trap_va=trap_va
        )
        return ""

    def mqds(self, mqd_va: int) -> list[tuple[Block, int]]:
        """Each XCC, and where its MQD is of a queue whose first one is at an address."""
        blocks = self.hub.blocks
        data = self.read(mqd_va + 4 * mqd.STRIDE, 4) if len(blocks) > 1 else None
        stride = int.from_bytes(data or b"", "little")
        return [(block, mqd_va + xcc * stride) for xcc, block in enumerate(blocks)]

    def unmap_queue(self, engine: str, doorbell_dw: int) -> str:
        """Take a queue from its engine; why there is none."""
        found = self._live.get(doorbell_dw)
        if found is not None and found[0] == engine:
            del self._live[doorbell_dw]
            self._queues.stop(found[1])
            return ""
        for key, its_dw in self._scheduling.items() if engine == "MES" else ():
            if its_dw == doorbell_dw:
                self.block.put("CP_HQD_ACTIVE", 0, key)
                self._stopped(key)
                return ""
        if engine == kernel.COMPUTE and self._compute.deactivate(doorbell_dw):
            return ""
        return f"no {engine} queue has doorbell {doorbell_dw}"
