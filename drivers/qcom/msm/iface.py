"""One GPU over msm: its node, its submit queues, what msm reports of a fault."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import Final

from drivers.base import forks
from drivers.base.arena import Arena
from drivers.base.contracts import Region, World
from drivers.base.errors import (
    DeviceError,
    DeviceGone,
    DeviceTimeout,
    MalformedInput,
    NotFound,
    Unsupported,
    UseAfterFree,
)
from drivers.base.undo import Step, Undo, run_all
from drivers.gpu.iface import GpuClock, GpuIface, Memory, Use
from drivers.gpu.incident import Incident
from drivers.machine.buses import render_nodes
from drivers.qcom import mapping, release
from drivers.qcom.clock import NS_PER_S, CounterClock
from drivers.qcom.iface import Plan
from drivers.qcom.msm import memory, prime
from drivers.qcom.msm.abi import (
    GET_PARAM,
    PIPE_3D0,
    QUEUE_FAULTS,
    QUEUE_QUERY,
    WAIT_FENCE,
    Param,
    ParamCall,
    QueueQuery,
    WaitFence,
)
from drivers.qcom.msm.bind import Binds
from drivers.qcom.msm.memory import MsmMemory
from drivers.qcom.msm.objects import Objects
from drivers.qcom.msm.queue import MsmQueue
from drivers.qcom.system import memory_bytes
from queues.qcom.chips import chip_of

DRIVERS: Final = ("msm", "adreno")
"""What the drivers of its render nodes are called, as sysfs has them: their beginnings."""
POLL_S: Final = 0.001
BUDGET_S: Final = 0.125
"""Of a submission: a quarter of the hang check's 0.5 s. Since Linux 6.1 it looks every 0.25 s: one
that made no progress in its command buffers then, or is not done after four looks, is a hang.
# src: Linux 5.15 to 7.3, msm_gpu.c hangcheck_handler(), made_progress(); a6xx_gpu.c
# a6xx_progress(); msm_gpu.h DRM_MSM_HANGCHECK_DEFAULT_PERIOD, DRM_MSM_HANGCHECK_PROGRESS_RETRIES"""
MOST_PRIORITIES: Final = 64
"""More than 4 rings times the scheduler's levels. # src: Linux 6.12, msm_gpu.h, MSM_GPU_MAX_RINGS,
NR_SCHED_PRIORITIES"""
_ARENA_BYTES: Final = mapping.PAGE_BYTES
_WORD: Final = struct.Struct("<I")
GPU_FAULT: Final = "GPU fault"


class MsmIface:
    """A GPU of this process; `open_msm` makes it."""

    name = "MSM"
    budget_s = BUDGET_S
    evicts = False

    def __init__(
        self, world: World, path: str, fd: int, arena: Region, *, bind: bool = False
    ) -> None:
        """`bind`: choose VM_BIND."""
        self.world, self.path, self.fd, self._arena = world, path, fd, Arena(arena)
        self.binds = Binds(world, fd) if bind else None
        self.clock: GpuClock = CounterClock(world)
        self.peeks: list[Callable[[int], int | None]] = []
        self.published: list[Callable[[], object]] = []
        self.gone: DeviceError | None = None
        self.forked = self.coherent = False
        self.bytes_held = 0
        self._queues: list[MsmQueue] = []
        self._looking = RLock()
        self._undo: list[Step] = [partial(world.close, fd), arena.close]
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: queues and mappings are the parent's."""
        self._looking, self.forked = RLock(), True
        self._arena.after_fork()

    def open(self) -> None:
        """Ask for the chip; a failure undoes what was done."""
        with Undo() as undo:
            undo.add(self.close)
            if self.binds is not None:
                self.binds.open()
                self._undo.append(partial(self._leave, self.binds))
            self.objects = Objects(self.world)
            self._undo.append(self.objects.close)
            self.chip = chip_of(self.param(Param.CHIP_ID))
            self.priorities = self._levels()
            self.memory_bytes = memory_bytes(self.world)
            self.coherent = memory.is_coherent(self.world, self.fd)

    def _levels(self) -> int:
        """Priorities of submit queues, at least one. Raises: MalformedInput."""
        levels = self.param(Param.PRIORITIES)
        if levels > MOST_PRIORITIES:
            raise MalformedInput(f"msm has {levels} priorities", hint="report the kernel's version")
        return max(levels, 1)

    def _leave(self, binds: Binds) -> None:
        """A child has its parent's file: it takes nothing out of it."""
        if not self.forked:
            binds.close()

    def param(self, number: Param) -> int:
        """A number of the GPU. Raises: what msm refuses."""
        self._check()
        return GET_PARAM(self.world, self.fd, ParamCall(pipe=PIPE_3D0, param=number)).value

    def sleeps(self) -> int | None:
        """How often the GPU was suspended: after 66 ms without work, and with the machine.

        # src: Linux 5.15 to 7.3, adreno_gpu.c adreno_get_param(), MSM_PARAM_SUSPENDS
        """
        return self.param(Param.SUSPENDS)

    def _check(self) -> None:
        if self.forked:
            raise UseAfterFree(
                "this GPU is open in the process that was forked", hint="open it in each process"
            )

    # Memory

    def allocate(self, nbytes: int, use: Use, name: str, *, host: bool = False) -> MsmMemory:
        """Memory for one use; the host always sees it. Raises: OutOfMemory."""
        self._check()
        return memory.allocate(self, nbytes, use, name, host=host)

    def wrap(self, cpu_va: int, nbytes: int, name: str) -> Memory:
        """msm takes no memory of processes."""
        raise Unsupported("host memory is not lent over msm", hint="copy it to a buffer")

    def lent(self, gpu_va: int, nbytes: int) -> Memory:
        """Each open of the node has addresses of its own."""
        raise Unsupported("memory is not lent by its address over msm", hint="copy the elements")

    def import_dmabuf(self, fd: int, first: int, nbytes: int) -> Memory:
        """All of a dma-buf. Raises: BadArgument."""
        self._check()
        return memory.import_dmabuf(self, fd, first, nbytes)

    def export_dmabuf(self, held: Memory) -> int:
        """A new descriptor of a dma-buf of the memory. Raises: Unsupported."""
        self._check()
        if not isinstance(held, MsmMemory):
            raise Unsupported(f"{held!r} is another library's", hint="share what that library has")
        return prime.export(self.world, self.fd, held.listed.handle)

    def write_code(self, held: Memory, data: bytes) -> bool:
        """The host sees all memory."""
        held.view()[: len(data)] = data
        return True

    def publish(self) -> None:
        """A signal was set: what waited for it is submitted, by an ioctl that orders stores."""
        for step in self.published:
            step()

    def shares(self, other: GpuIface) -> bool:
        """Only its own memory."""
        mine: object = self
        return other is mine

    # Queues and their faults

    def open_queue(self, plan: Plan) -> MsmQueue:
        """A queue that runs. A failure frees everything."""
        self._check()
        queue = MsmQueue(self, plan)
        queue.open()
        with self._looking:
            self._queues = [*(one for one in self._queues if one.number >= 0), queue]
        return queue

    def wait(self, timeout_ms: int) -> Incident | None:
        """Sleep until a queue's work is done, or the timeout; the fault, when there is one."""
        self._check()
        found = self._reported()
        if found is None and timeout_ms > 0:
            self._sleep(timeout_ms)
            found = self._reported()
        return found

    def _sleep(self, timeout_ms: int) -> None:
        for queue in list(self._queues):
            last = queue.last
            if queue.running and last != queue.passed:
                until_ns = int(self.world.monotonic_s() * NS_PER_S) + timeout_ms * 1_000_000
                call = WaitFence(
                    fence=last, tv_sec=until_ns // NS_PER_S, tv_nsec=until_ns % NS_PER_S,
                    queueid=queue.number,
                )  # fmt: skip
                try:
                    WAIT_FENCE(self.world, self.fd, call)
                except DeviceTimeout:
                    return
                queue.passed = last
                return
        self.world.sleep(min(timeout_ms / 1000, POLL_S))

    def _reported(self) -> Incident | None:
        """Threads that wait at the same time look here; one of them gets the report.

        A submission that was given up counts in its queue. Page faults count nowhere, and other
        processes' hangs are not ours: msm submits again what was behind them.
        # src: Linux 5.15 to 7.3, msm_gpu.c recover_worker(); adreno_gpu.c adreno_fault_handler()
        """
        with self._looking:
            for queue in self._queues:
                if queue.running and self._faults_of(queue) != queue.faults:
                    queue.dead = True
                    return Incident(cause=GPU_FAULT)
        return None

    def _faults_of(self, queue: MsmQueue) -> int:
        with self._arena.piece(bytes(_WORD.size)) as piece:
            call = QueueQuery(
                data=piece.cpu_va, id=queue.number, param=QUEUE_FAULTS, len=_WORD.size
            )
            QUEUE_QUERY(self.world, self.fd, call)
            (faults,) = _WORD.unpack(piece.read())
        return int(faults)

    def lost(self, incident: Incident) -> DeviceError:
        """No queue runs any more."""
        self.gone = DeviceGone(
            f"{self.path}: the GPU runs no work any more ({incident.cause})",
            hint="See the kernel log (dmesg), then open it again",
        )
        return self.gone

    def close(self) -> None:
        """Leave the GPU: every step runs, whatever fails. A second close does nothing."""
        undo, self._undo = self._undo, []
        run_all(reversed(undo))


def open_msm(world: World, index: int, *, bind: bool = False) -> MsmIface:
    """The GPU with this number among msm's; `bind` chooses VM_BIND.

    Raises: NotFound, Denied, Unsupported.
    """
    nodes = [path for path, name in render_nodes(world).items() if name.startswith(DRIVERS)]
    if index >= len(nodes):
        raise NotFound(
            f"there is no QCOM:{index}: msm has {len(nodes)} render nodes",
            hint="on a Qualcomm machine with a mainline kernel: `modprobe msm`",
        )
    release.check(world, "MSM")
    with Undo() as undo:
        fd = world.open(nodes[index], os.O_RDWR)
        undo.add(partial(world.close, fd))
        arena = world.mmap(-1, _ARENA_BYTES)
        undo.add(arena.close)
        iface = MsmIface(world, nodes[index], fd, arena, bind=bind)
        undo.hand_over(iface.close)
        iface.open()
    return iface
