"""One GPU over KGSL: its node, its contexts, what KGSL reports of a fault."""

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
    Unsupported,
    UseAfterFree,
)
from drivers.base.lent import check_inside
from drivers.base.order import is_in_order
from drivers.base.oserrors import errno_of
from drivers.base.pages import PAGE_BYTES
from drivers.base.undo import Step, Undo, run_all
from drivers.gpu.iface import GpuClock, GpuIface, Memory, Use
from drivers.gpu.incident import Incident
from drivers.qcom import mapping, release
from drivers.qcom.clock import CounterClock
from drivers.qcom.iface import LentMemory, NoGpuAddress, Plan
from drivers.qcom.kgsl import imports, memory
from drivers.qcom.kgsl.abi import (
    CACHE_RANGE,
    CONSTRAINT_PWRLEVEL,
    GET_PROPERTY,
    LARGEST_PAGE_BYTES,
    MEMORY_INFO,
    OBJECT_IMPORT,
    OBJECT_SYNC,
    PWR_MAX,
    SET_PROPERTY,
    WAIT_TIMESTAMP,
    CacheOp,
    Constraint,
    DevInfo,
    MemoryInfo,
    ObjectImport,
    ObjectSync,
    Prop,
    Property,
    ResetStat,
    SyncObject,
    WaitTimestamp,
)
from drivers.qcom.kgsl.fault_report import page_fault_of
from drivers.qcom.kgsl.memory import KgslMemory
from drivers.qcom.kgsl.queue import DEAD, KgslQueue
from drivers.qcom.system import memory_bytes
from queues.qcom.chips import chip_of

PATH: Final = "/dev/kgsl-3d0"
BUDGET_S: Final = 0.5
"""Of a submission: a quarter of KGSL's 2 s. Its dispatcher does not apply them to contexts with
KGSL_CONTEXT_NO_FAULT_TOLERANCE, as ours are; the GPU's own scheduler of newer chips decides itself.
# src: msm-4.9 to 6.x, adreno_dispatch.c _adreno_dispatch_check_timeout(), adreno_drawobj_timeout"""
POLL_S: Final = 0.001
"""How long a wait sleeps where no context has work."""
_ARENA_BYTES: Final = mapping.PAGE_BYTES
_WORD: Final = struct.Struct("<I")
_STOPPED: Final = frozenset({ResetStat.GUILTY, ResetStat.UNKNOWN})
FAULT: Final = "GPU fault"


class KgslIface:
    """A GPU of this process; `open_kgsl` makes it."""

    name = "KGSL"
    budget_s = BUDGET_S
    evicts = False

    def __init__(self, world: World, fd: int, arena: Region) -> None:
        self.world, self.fd, self._arena = world, fd, Arena(arena)
        self.clock: GpuClock = CounterClock(world)
        self.peeks: list[Callable[[int], int | None]] = []
        self.published: list[Callable[[], object]] = []
        self.gone: DeviceError | None = None
        self.forked = self.coherent = False
        self.objects = self.bytes_held = 0
        self.page_bytes = PAGE_BYTES
        self._queues: list[KgslQueue] = []
        self._looking = RLock()
        self._undo: list[Step] = [partial(world.close, fd), arena.close]
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: contexts and mappings are the parent's."""
        self._looking, self.forked = RLock(), True
        self._arena.after_fork()

    def open(self) -> None:
        """Ask for the chip; a failure undoes what was done."""
        with Undo() as undo:
            undo.add(self.close)
            self.info = DevInfo.of(self.property(Prop.DEVICE_INFO, bytes(DevInfo.SIZE)))
            self.chip = chip_of(self.info.chip_id)
            self.memory_bytes = memory_bytes(self.world)
            if not self.info.mmu_enabled:
                raise Unsupported(f"{PATH}: the GPU's MMU is off", hint="use a kernel that has it")
            self.coherent, self.page_bytes = memory.look(self.world, self.fd)

    def property(self, kind: Prop, given: bytes) -> bytes:
        """A property of so many bytes; some read their argument from there."""
        self._check()
        with self._arena.piece(given) as piece:
            call = Property(type=kind, value=piece.cpu_va, sizebytes=len(given))
            GET_PROPERTY(self.world, self.fd, call)
            return piece.read()

    def full_power(self, context: int) -> None:
        """Ask for the highest clock while a context has work."""
        with self._arena.piece(_WORD.pack(PWR_MAX)) as level:
            wanted = Constraint(
                type=CONSTRAINT_PWRLEVEL, context_id=context, data=level.cpu_va, nbytes=_WORD.size
            )
            with self._arena.piece(wanted.raw) as piece:
                call = Property(
                    type=Prop.PWR_CONSTRAINT, value=piece.cpu_va, sizebytes=Constraint.SIZE
                )
                SET_PROPERTY(self.world, self.fd, call)

    def sleeps(self) -> int | None:
        """KGSL does not say how often the GPU slept."""
        return None

    def _check(self) -> None:
        if self.forked:
            raise UseAfterFree(
                "this GPU is open in the process that was forked", hint="open it in each process"
            )

    # Memory

    def allocate(self, nbytes: int, use: Use, name: str, *, host: bool = False) -> KgslMemory:
        """Memory for one use; the host always sees it. Raises: OutOfMemory."""
        self._check()
        return memory.allocate(self, nbytes, use, name, host=host)

    def sync(self, number: int, off: int, nbytes: int, op: CacheOp) -> None:
        """Clean or invalidate the host's caches of a part of an object; of nothing, do nothing.

        It begins with a page: an offset inside of one makes KGSL 5.4 and later leave pages out.
        # src: kgsl_sharedmem.c kgsl_cache_range_op(), where PAGE_MASK is the wrong way round
        """
        if not nbytes:
            return
        self._check()
        low = off & -LARGEST_PAGE_BYTES
        one = SyncObject(offset=low, length=off + nbytes - low, id=number, op=op | CACHE_RANGE)
        with self._arena.piece(one.raw) as piece:
            call = ObjectSync(objs=piece.cpu_va, obj_len=SyncObject.SIZE, count=1)
            OBJECT_SYNC(self.world, self.fd, call)

    def ask_import(self, wanted: ObjectImport, described: bytes) -> int:
        """The id of an imported object, which `described` says more of."""
        with self._arena.piece(described) as piece:
            wanted.priv = piece.cpu_va
            number: int = OBJECT_IMPORT(self.world, self.fd, wanted).id
            return number

    def wrap(self, cpu_va: int, nbytes: int, name: str) -> Memory:
        """Whole pages of this process. Raises: Unsupported, also in a recording."""
        self._check()
        if is_in_order():
            raise Unsupported("memory of the program itself is not recorded", hint="copy it")
        return imports.wrap(self, cpu_va, nbytes, name)

    def lent(self, gpu_va: int, nbytes: int) -> Memory:
        """Memory of another library of this process. Raises: NoGpuAddress, BadArgument."""
        self._check()
        try:
            info = MEMORY_INFO(self.world, self.fd, MemoryInfo(gpuaddr=gpu_va))
        except DeviceError as error:
            raise NoGpuAddress(
                f"{gpu_va:#x} is no GPU address of this process",
                hint="pass the address of a cl_mem",
            ) from error
        check_inside(gpu_va - info.gpuaddr, nbytes, info.nbytes, info.gpuaddr)
        return LentMemory(gpu_va, nbytes)

    def import_dmabuf(self, fd: int, first: int, nbytes: int) -> Memory:
        """All of a dma-buf. Raises: BadArgument."""
        self._check()
        return imports.import_dmabuf(self, fd, first, nbytes)

    def export_dmabuf(self, held: Memory) -> int:
        """KGSL's objects are no dma-bufs."""
        raise Unsupported(
            "dma-bufs are not exported over KGSL",
            hint="allocate one of /dev/dma_heap/system, and import it on both sides",
        )

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

    # Contexts and their faults

    def open_queue(self, plan: Plan) -> KgslQueue:
        """A context that runs. A failure frees everything."""
        self._check()
        queue = KgslQueue(self, plan)
        queue.open()
        with self._looking:
            self._queues = [*(one for one in self._queues if one.number), queue]
        return queue

    def killed(self, context: KgslQueue) -> None:
        """KGSL refuses a context's work: its reset state is read in the next wait."""

    def wait(self, timeout_ms: int) -> Incident | None:
        """Sleep until a context's work is done, or the timeout; the fault, when there is one."""
        self._check()
        found = self._reported()
        if found is None and timeout_ms > 0:
            self._sleep(timeout_ms)
            found = self._reported()
        return found

    def _sleep(self, timeout_ms: int) -> None:
        for queue in list(self._queues):
            last = queue.last
            if queue.number and not queue.dead and last != queue.retired:
                call = WaitTimestamp(context_id=queue.number, timestamp=last, timeout=timeout_ms)
                try:
                    WAIT_TIMESTAMP(self.world, self.fd, call)
                except DeviceTimeout:
                    return
                except DeviceError as error:
                    if errno_of(error) not in DEAD:
                        raise
                    return  # the context's reset state says what happened
                queue.retired = last
                return
        self.world.sleep(min(timeout_ms / 1000, POLL_S))

    def _reported(self) -> Incident | None:
        """Threads that wait at the same time look here; one of them gets the report."""
        with self._looking:
            for queue in self._queues:
                if not queue.number or queue.dead:
                    continue
                (stat,) = _WORD.unpack(self.property(Prop.GPU_RESET_STAT, _WORD.pack(queue.number)))
                if stat in _STOPPED:
                    queue.dead = True
                    return self._incident(queue)
        return None

    def _incident(self, queue: KgslQueue) -> Incident:
        """Why a context was stopped, with its page fault where KGSL keeps one."""
        if not queue.reports:
            return Incident(cause=FAULT)
        try:
            page = page_fault_of(self.world, self.fd, self._arena, queue.number)
        except DeviceError as error:  # the fault itself is the error to raise
            return Incident(cause=FAULT, unread=str(error))
        return Incident(page, FAULT)

    def lost(self, incident: Incident) -> DeviceError:
        """No context runs any more."""
        self.gone = DeviceGone(
            f"{PATH}: the GPU runs no work any more ({incident.cause})",
            hint="See the kernel log (dmesg), then open it again",
        )
        return self.gone

    def close(self) -> None:
        """Leave the GPU: every step runs, whatever fails. A second close does nothing."""
        undo, self._undo = self._undo, []
        run_all(reversed(undo))


def open_kgsl(world: World, index: int) -> KgslIface:
    """The GPU of this machine. Raises: NotFound, Denied, Unsupported, what KGSL refuses."""
    if index:
        raise Unsupported(f"KGSL has one GPU, no number {index}", hint="use QCOM:0")
    with Undo() as undo:
        fd = world.open(PATH, os.O_RDWR)
        undo.add(partial(world.close, fd))
        release.check(world, "KGSL")
        arena = world.mmap(-1, _ARENA_BYTES)
        undo.add(arena.close)
        iface = KgslIface(world, fd, arena)
        undo.hand_over(iface.close)
        iface.open()
    return iface
