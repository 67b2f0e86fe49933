"""The scheduler's firmware (MES): frames of its ring, queues of processes on the engines.

Modelled from the driver's side (mes_v11_0.c, mes_v12_0.c); boards/amd/pci/process_queues.py places
the queues. A frame that is not modelled is a violation and gets no answer, so that the driver's
time-out reports it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from boards.amd.cp import kernel
from boards.amd.cp.engine_types import QueueSpec
from boards.amd.pci import mes_frames as f
from boards.amd.pci import mqd
from boards.amd.pci.board import Board
from boards.amd.pci.compute import DOORBELL_BYTES, Compute
from boards.amd.pci.kernel_queues import KernelQueues
from boards.amd.pci.process_queues import ProcessQueues, Wanted
from boards.amd.pci.processes import Processes
from boards.amd.pci.sdma import Sdma

_QUEUES, _PIPES = range(2, 4), range(4)
"""Of the first compute engine, queues 2 and 3 of each pipe.
src: amdgpu_mes.c amdgpu_mes_init() compute_hqd_mask 0xc"""
VERSION, _VERSION_REGISTER = 0x2063, "CP_MES_GP3_LO"
"""API version 2 and the scheduler's own. src: amdgpu_mes.h AMDGPU_MES_API_VERSION_MASK. With
API version 0 Linux 6.12 oopses when a process destroys a queue; 0x63 is the first that suspends and
resumes all gangs. src: amdgpu_mes_suspend_resume_all_supported()"""
_ROLE = "MES"
_MAX_FRAMES = 1 << 12
_ENGINES = {
    f.GFX_QUEUE: kernel.GRAPHICS, f.COMPUTE_QUEUE: kernel.COMPUTE, f.SCHEDULER_QUEUE: "MES",
}  # fmt: skip


@dataclass(slots=True)
class _Ring:
    """A ring of frames, and how far it was read."""

    spec: QueueSpec
    read_dw: int


class Mes:
    """Runs when its doorbell rings."""

    def __init__(self, board: Board, queues: KernelQueues, compute: Compute, sdma: Sdma) -> None:
        self._board, self._queues = board, queues
        self._known = f.MEMBERS.get(board.chip.gc[0], f.MEMBERS[11])
        self._processes = Processes(board, queues.hub)
        self.running = ProcessQueues(board, queues, compute, sdma, "MES")
        self.running.places = tuple((1, pipe, queue) for queue in _QUEUES for pipe in _PIPES)
        self._rings: dict[int, _Ring] = {}
        """By doorbell, in dwords: gfx12 has one on each of two pipes."""
        queues.mes_ring, queues.mes_gone = self._mapped, self._unmapped
        if queues.block.has(_VERSION_REGISTER):
            queues.block.preset(_VERSION_REGISTER, VERSION)
        self._handlers: dict[int, Callable[[tuple[int, ...]], str]] = {
            f.SET_HW_RSRC: self._resources, f.ADD_QUEUE: self._add, f.REMOVE_QUEUE: self._remove,
            f.MISC: self._misc, f.QUERY_STATUS: _done, f.SET_HW_RSRC_1: _done,
            f.SET_SCHEDULING_CONFIG: _done, f.SUSPEND: self._suspend, f.RESUME: _done,
        }  # fmt: skip
        board.on_reset(self._forget, core=True)

    def _forget(self) -> None:
        self._rings.clear()

    def _mapped(self, spec: QueueSpec, doorbell_dw: int) -> None:
        self._rings[doorbell_dw] = _Ring(spec, spec.start)

    def _unmapped(self, doorbell_dw: int) -> None:
        self._rings.pop(doorbell_dw, None)

    def doorbell(self, index: int, nbytes: int, value: int) -> bool:
        """A store that was routed to the graphics block; whether it is this ring's."""
        ring = self._rings.get(index)
        if ring is None:
            self.running.wake(index)
            return False
        if nbytes != DOORBELL_BYTES:
            self._board.find("doorbell", f"the scheduler's: {nbytes} bytes are stored, not 8")
        for hub in (self._queues.hub, self._queues.memory_hub):
            hub.before_queues_run()
        size_dw = ring.spec.ring_bytes // 4
        if not 0 <= value - ring.read_dw <= size_dw:
            self._board.find("MES", f"write pointer {value:#x} behind {ring.read_dw:#x}")
            return True
        for _ in range(_MAX_FRAMES):
            if value - ring.read_dw < f.FRAME_DW:
                break
            words = self._frame(ring, size_dw)
            ring.read_dw += f.FRAME_DW
            if words is None:
                break
            self._run(words)
        read = (ring.read_dw % size_dw).to_bytes(4, "little")
        self._queues.write(ring.spec.rptr_va, read)
        self._queues.hub.after_queues_ran()
        return True

    def _frame(self, ring: _Ring, size_dw: int) -> tuple[int, ...] | None:
        at = ring.spec.ring_va + 4 * (ring.read_dw % size_dw)
        data = self._queues.read(at, 4 * f.FRAME_DW)
        if data is None:
            self._board.find("MES", f"no memory for the ring at {at:#x}")
            return None
        return mqd.words_of(data)

    def _run(self, words: tuple[int, ...]) -> None:
        kind, opcode, nwords = words[0] & 0xF, words[0] >> 4 & 0xFF, words[0] >> 12 & 0xFF
        handler, members = self._handlers.get(opcode), self._known
        if kind != f.SCHEDULER or nwords != f.FRAME_DW or handler is None:
            self._board.find("MES frame that is not modelled", f"{words[0]:#x}")
            return
        self._board.hardware.event("MES", opcode=opcode)
        why = handler(words)
        if why:
            self._board.find("MES refused", f"opcode {opcode}: {why}")
            return
        at = members.status[opcode]
        address, value = _pair(words, at), _pair(words, at + 2)
        if address and not self._queues.write(address, value.to_bytes(8, "little")):
            self._board.find("MES", f"no memory for the fence at {address:#x}")

    # Frames

    def _resources(self, words: tuple[int, ...]) -> str:
        self._processes.give(words[2])
        return ""

    def _add(self, words: tuple[int, ...]) -> str:
        m = self._known
        flags, kind = words[m.context_control + 1], words[m.queue_type]
        mqd_va, doorbell_dw = _pair(words, m.mqd), words[m.doorbell]
        if flags & f.MAP_LEGACY:
            engine = _ENGINES.get(kind)
            if engine is None:
                return f"a kernel's queue of type {kind}"
            return self._queues.map_queue(engine, words[m.pipe], words[m.pipe + 1], mqd_va)
        if doorbell_dw in self.running.all():
            return f"doorbell {doorbell_dw} has a queue"
        pasid = words[m.process_id]
        vmid = self._processes.enter(pasid, _pair(words, m.root), words[m.context_control])
        if vmid is None:
            return "all VMIDs are taken"
        # Without it: a queue of the kernel's with a VMID. src: amdgpu_mes.c amdgpu_mes_self_test()
        trap_va = _pair(words, m.status[f.ADD_QUEUE] + m.tma_after_status)
        if flags & f.TRAP_ENABLED:
            self._queues.block.put_field("SPI_GDBG_PER_VMID_CNTL", "TRAP_EN", 1, vmid)
        kfd = bool(flags & f.KFD_PROCESS)
        wanted = Wanted(kind, pasid, vmid, mqd_va, kfd=kfd, trap_va=trap_va)
        why = self.running.add(doorbell_dw, wanted, self._written(_pair(words, m.wptr)))
        if why:
            self._processes.leave(pasid)
        return why

    def _written(self, wptr_va: int) -> int | None:
        """A queue's write pointer in memory. Firmware reads it by the address that ADD_QUEUE has
        for API version 2 and later, which is in the GART."""
        data = self._queues.read(wptr_va, 8) if wptr_va else None
        return None if data is None else int.from_bytes(data, "little")

    def _remove(self, words: tuple[int, ...]) -> str:
        m = self._known
        doorbell_dw = words[m.doorbell_of_removal]
        if words[m.remove_flags] & f.UNMAP_LEGACY:
            if not self._queues.unmap_queue("MES", doorbell_dw):
                return ""  # gfx12's other pipe ends it. src: mes_v12_0.c mes_v12_0_hw_fini()
            for engine in (kernel.COMPUTE, kernel.GRAPHICS):
                if not self._queues.unmap_queue(engine, doorbell_dw):
                    return ""
            return f"no kernel's queue has doorbell {doorbell_dw}"
        removed = self.running.remove(doorbell_dw)
        if removed is None:
            return f"no queue has doorbell {doorbell_dw}"
        self._processes.leave(removed.pasid)
        return ""

    def _suspend(self, words: tuple[int, ...]) -> str:
        """All gangs, or one: nothing runs between frames here, so all of them are suspended."""
        address, value = _pair(words, self._known.suspend_fence), words[6]
        if address:
            self._queues.write(address, value.to_bytes(4, "little"))
        return ""

    def _misc(self, words: tuple[int, ...]) -> str:
        m, registers = self._known, self._board.registers
        operation, data = words[m.operation], words[m.data :]
        if operation == f.WRITE_REG:
            with self._board.by_engine(_ROLE):
                registers.write(data[0], data[1])
        elif operation == f.READ_REG:
            with self._board.by_engine(_ROLE):
                value = registers.read(data[0])
            self._queues.write(_pair(data, m.read_buffer), value.to_bytes(4, "little"))
        elif operation == f.WAIT_REG_MEM:
            with self._board.by_engine(_ROLE):
                return self._wait(data)
        elif operation not in (f.SET_SHADER_DEBUGGER, f.CHANGE_CONFIG, f.INV_GART):
            return f"MISC operation {operation}"
        return ""

    def _wait(self, data: tuple[int, ...]) -> str:
        """src: mes_v11_api_def.h struct WAIT_REG_MEM: op, reference, mask, two registers"""
        operation, reference, mask, first, second = data[:5]
        registers = self._board.registers
        if operation == f.WRITE_THEN_WAIT:
            registers.write(first, reference)
            value = registers.read(second)
            return "" if value & mask == mask else f"register {second:#x} is {value:#x}"
        value = registers.read(first)
        return "" if value & mask == reference else f"register {first:#x} is {value:#x}"


def _pair(words: tuple[int, ...], at: int) -> int:
    return words[at] | words[at + 1] << 32


def _done(words: tuple[int, ...]) -> str:
    return ""
