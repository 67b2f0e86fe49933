"""The scheduler's firmware of the compute processor (HWS): what KFD orders on its HIQ.

A run list takes the place of the one before: its processes get VMIDs, page tables, SH_MEM and
trap registers, and their queues are mapped (boards/amd/pci/process_queues.py). A list with more
processes than VMIDs is refused: nothing is time-sliced here. Modelled from the driver's side
(kfd_device_queue_manager.c, execute_queues_cpsch()): UNMAP_QUEUES unmaps at once, also queues that
hang, so that KFD's time-out of a preemption never happens.
"""

from __future__ import annotations

from boards.amd.cp.context import bits, join
from boards.amd.cp.kernel import RUN_LIST, SET_RESOURCES, UNMAP_QUEUES
from boards.amd.pci import mqd, runlist
from boards.amd.pci.board import Board
from boards.amd.pci.compute import Compute
from boards.amd.pci.kernel_queues import KernelQueues
from boards.amd.pci.process_queues import ProcessQueues, Wanted
from boards.amd.pci.processes import Processes
from boards.amd.pci.runlist import BadList, ListedProcess, ListedQueue
from boards.amd.pci.sdma import Sdma
from boards.amd.wave.types import MemoryFault

_HIQ_TYPE = 1
"""src: queue_type__mes_set_resources__hsa_interface_queue_hiq"""
_QUEUES_OF_PIPE, _QUEUES_OF_MEC = 8, 32
"""src: amdgpu_gfx.c amdgpu_queue_mask_bit_to_set_resource_bit()"""
_PREEMPT, _RESET = 0, 1
_BY_PASID, _ALL, _ALL_DYNAMIC = 1, 2, 3
"""src: enum mes_unmap_queues_action_enum, enum mes_unmap_queues_queue_sel_enum"""
_PER_VMID = ("SH_MEM_CONFIG", "SH_MEM_BASES", "SPI_GDBG_PER_VMID_CNTL")


class Hws:
    """One partition of all XCCs, whose HIQ is executed once."""

    def __init__(self, board: Board, queues: KernelQueues, compute: Compute, sdma: Sdma) -> None:
        self._board, self._queues = board, queues
        self._processes = Processes(board, queues.hub, queues.memory_hub, bounds=False)
        self.running = ProcessQueues(board, queues, compute, sdma, "HWS")
        self._mapped: list[int] = []
        """PASIDs of the processes that have a VMID."""
        board.on_reset(self._mapped.clear, core=True)

    def order(self, opcode: int, words: tuple[int, ...]) -> str:
        """A packet of the HIQ, without its header; why it is refused."""
        if opcode == SET_RESOURCES:
            return self._resources(words)
        if opcode == UNMAP_QUEUES:
            return self._unmap(words)
        return self._run_list(words) if opcode == RUN_LIST else f"opcode {opcode:#x}"

    def _resources(self, words: tuple[int, ...]) -> str:
        if bits(words[0], 31, 29) != _HIQ_TYPE:
            return f"SET_RESOURCES of {words[0]:#x} is not the HIQ's"
        if self._mapped:
            return "SET_RESOURCES while processes are mapped"
        mask = join(words[1], words[2])
        if mask >> _QUEUES_OF_MEC:
            return f"queues {mask:#x} are not all of the first compute engine"
        self._processes.give(bits(words[0], 15, 0))
        self.running.places = tuple(
            (1, number // _QUEUES_OF_PIPE, number % _QUEUES_OF_PIPE)
            for number in range(_QUEUES_OF_MEC)
            if mask >> number & 1
        )
        return ""

    # RUN_LIST

    def _run_list(self, words: tuple[int, ...]) -> str:
        control, va = words[2], join(words[0], words[1])
        if not control & runlist.VALID or control & (runlist.CHAIN | runlist.OFFLOAD_POLLING):
            return f"RUN_LIST of {control:#x}: a valid one that is not chained"
        data = self._queues.read(va, 4 * bits(control, 19, 0))
        if data is None:
            return f"there is no run list at {va:#x}"
        try:
            listed = runlist.read(mqd.words_of(data), va)
        except BadList as bad:
            return f"the run list at {va:#x}: {bad}"
        self._leave(list(self._mapped))
        for process in listed:
            why = self._enter(process)
            if why:
                return f"process {process.pasid:#x}: {why}"
        return ""

    def _enter(self, process: ListedProcess) -> str:
        if process.pasid in self._mapped:
            return "it is in the list twice"
        vmid = self._processes.enter(process.pasid, process.root, 0)
        if vmid is None:
            return "all VMIDs are taken"
        self._mapped.append(process.pasid)
        values = (process.sh_mem_config, process.sh_mem_bases, process.spi_gdbg)
        for block in self._queues.hub.blocks:
            for name, value in zip(_PER_VMID, values, strict=True):
                block.put(name, value, vmid)
        self._board.hardware.event("map process", pasid=process.pasid, vmid=vmid)
        for queue in process.queues:
            why = self._map(process, vmid, queue)
            if why:
                return f"the queue of doorbell {queue.doorbell_dw}: {why}"
        return ""

    def _map(self, process: ListedProcess, vmid: int, queue: ListedQueue) -> str:
        wanted = Wanted(
            queue.kind, process.pasid, vmid, queue.mqd_va, kfd=True,
            trap_va=process.tma_va if process.tba_va else 0, engine=queue.engine,
        )  # fmt: skip
        return self.running.add(queue.doorbell_dw, wanted, self._written(vmid, queue.wptr_va))

    def _written(self, vmid: int, va: int) -> int | None:
        """A queue's write pointer, which is in its process's memory."""
        try:
            agent = self._queues.hub.space(vmid).agent("scheduler")
            agent.acquire()
            return int.from_bytes(agent.read(va, 8), "little")
        except MemoryFault as fault:
            self._board.find("HWS", f"the write pointer of a queue: {fault}")
            return None

    # UNMAP_QUEUES

    def _unmap(self, words: tuple[int, ...]) -> str:
        """Static queues are not modelled, so that all are dynamic."""
        control = words[0]
        action, which = bits(control, 1, 0), bits(control, 5, 4)
        if action not in (_PREEMPT, _RESET) or bits(control, 31, 6) or bits(control, 3, 2):
            return f"UNMAP_QUEUES of {control:#x}"
        if which in (_ALL, _ALL_DYNAMIC):
            self._leave(list(self._mapped))
        elif which == _BY_PASID:
            self._leave([pasid for pasid in self._mapped if pasid == bits(words[1], 15, 0)])
        else:
            return "UNMAP_QUEUES by doorbells"
        return ""

    def _leave(self, pasids: list[int]) -> None:
        """The queues of processes are unmapped, and their VMIDs are free."""
        for doorbell_dw, wanted in self.running.all().items():
            if wanted.pasid in pasids:
                self.running.remove(doorbell_dw)
        for pasid in pasids:
            self._mapped.remove(pasid)
            self._processes.leave(pasid)
            self._board.hardware.event("unmap process", pasid=pasid)
