"""A KGSL context: its command memory, and the ioctl that submits from it."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from typing import Final, Protocol

from drivers.base.contracts import Region, World
from drivers.base.errors import UseAfterFree
from drivers.base.oserrors import errno_of
from drivers.base.undo import Step, Undo, run_all
from drivers.gpu.iface import Memory, Use
from drivers.qcom import mapping
from drivers.qcom.iface import Plan
from drivers.qcom.kgsl import memory
from drivers.qcom.kgsl.abi import (
    CMDLIST_IB,
    CONTEXT_CREATE,
    CONTEXT_DESTROY,
    GPU_COMMAND,
    OBJECT_BYTES,
    PRIORITY_SHIFT,
    SUBMIT_IB_LIST,
    ContextCreate,
    ContextDestroy,
    ContextFlag,
    GpuCommand,
)
from drivers.qcom.kgsl.memory import KgslMemory

LIST_BYTES: Final = mapping.PAGE_BYTES
FLAGS: Final = (
    ContextFlag.SAVE_GMEM | ContextFlag.NO_GMEM_ALLOC | ContextFlag.PREAMBLE
    | ContextFlag.NO_FAULT_TOLERANCE | ContextFlag.PREEMPT_FINEGRAIN
    | ContextFlag.PWR_CONSTRAINT | ContextFlag.FAULT_INFO
)  # fmt: skip
"""# src: Mesa tu_knl_kgsl.cc kgsl_submitqueue_new(); tinygrad ops_qcom.py has the next three"""
PRIORITY: Final = 8
"""Of all contexts: those of one priority share a ring buffer, and run in order."""
_OBJECT: Final = struct.Struct("<QQQII")
_PLACE: Final = struct.Struct("<QQ")
"""Of an object: gpuaddr, size."""
_BLOCK_AT: Final = OBJECT_BYTES + 8
"""Those of the second object: the block of the ring."""
_PLAYED: Final = 2
"""The first object of the list for graphs; before it is the list for blocks."""
_TIMESTAMP_AT: Final = 60
_TIMESTAMP: Final = struct.Struct("<I")
_timestamp: Final = _TIMESTAMP.unpack_from


class Gpu(memory.Gpu, Protocol):
    """What a context needs of its GPU."""

    def killed(self, context: KgslQueue) -> None:
        """KGSL runs no work of a context any more: the reset state is to be read."""

    def full_power(self, context: int) -> None:
        """Ask for the highest clock while a context has work."""


class KgslQueue:
    """A context. `last` is the timestamp of the last submission; it wraps at 32 bits."""

    def __init__(self, gpu: Gpu, plan: Plan) -> None:
        self.gpu, self.plan = gpu, plan
        self.dead = False
        self.reports = False
        """Whether KGSL keeps page faults of it: the flag was kept, which older kernels drop.
        # src: downstream adreno_drawctxt.c adreno_drawctxt_create()"""
        self.number = 0
        self.last = self.retired = 0
        self._undo: list[Step] = []
        self.doorbell: Callable[[int], None] = _closed
        self.write_pointer = memoryview(bytearray(8)).cast("Q")

    def open(self) -> None:
        """Create everything; a failure undoes what was done."""
        with Undo() as undo:
            undo.add(self.close)
            plan, gpu = self.plan, self.gpu
            size = -(-len(plan.setup) // LIST_BYTES) * LIST_BYTES
            nbytes, name = plan.ring_bytes + size, f"{plan.name}: ring"
            made = memory.allocate(gpu, nbytes, Use.PACKETS, name, host=True)
            self._undo.append(made.free)
            self.ring: Memory = made
            view = made.view()
            self.ring_view = view[: plan.ring_bytes]
            view[plan.ring_bytes : plan.ring_bytes + len(plan.setup)] = plan.setup
            self._list: Region = gpu.world.mmap(-1, LIST_BYTES)
            self._undo.append(self._list.close)
            self._context(made)

    def _context(self, ring: KgslMemory) -> None:
        gpu = self.gpu
        flags = FLAGS | PRIORITY << PRIORITY_SHIFT
        made = CONTEXT_CREATE(gpu.world, gpu.fd, ContextCreate(flags=flags))
        self.number, self.reports = made.drawctxt_id, bool(made.flags & ContextFlag.FAULT_INFO)
        self._undo.append(self._destroy)
        gpu.full_power(self.number)
        self._objects = self._list.view()
        self._ring_id, setup_va = ring.number, ring.gpu_va + self.plan.ring_bytes
        for first in (0, _PLAYED):
            self._object(first, setup_va, len(self.plan.setup), ring.number)
        self._object(1, 0, 0, ring.number)
        self._command = GpuCommand(
            flags=SUBMIT_IB_LIST, cmdlist=self._list.cpu_va, cmdsize=OBJECT_BYTES, numcmds=2,
            context_id=self.number,
        )  # fmt: skip
        self._pair = bytes(self._command.raw)
        self._command.cmdlist += _PLAYED * OBJECT_BYTES
        self._command.numcmds = 3
        self._triple = bytes(self._command.raw)
        self.submit_to(gpu.world)

    def submit_to(self, world: World) -> None:
        """Whose ioctl takes submissions; measurements have one of their own."""
        self._call = GPU_COMMAND.bound(world, self.gpu.fd, self._command)

    def _object(self, place: int, va: int, nbytes: int, number: int) -> None:
        at = place * OBJECT_BYTES
        _OBJECT.pack_into(self._objects, at, 0, va, nbytes, CMDLIST_IB, number)

    def submit(self, va: int, nbytes: int) -> None:
        """Run packets in the ring. Raises: what the kernel refuses."""
        _PLACE.pack_into(self._objects, _BLOCK_AT, va, nbytes)
        self._send(self._pair)

    def submit_with(self, held: Memory, va: int, nbytes: int, tail_va: int, tail: int) -> None:
        """Run packets in other memory, then `tail` bytes in the ring."""
        number = held.number if isinstance(held, KgslMemory) else 0
        self._object(_PLAYED + 1, va, nbytes, number)
        self._object(_PLAYED + 2, tail_va, tail, self._ring_id)
        self._send(self._triple)

    def _send(self, form: bytes) -> None:
        try:
            self._call(form)
        except Exception as error:
            if errno_of(error) in DEAD:
                self.gpu.killed(self)
            raise
        (self.last,) = _timestamp(self._command.raw, _TIMESTAMP_AT)
        _TIMESTAMP.pack_into(self._command.raw, _TIMESTAMP_AT, 0)

    def taken(self) -> bool:
        """Whether a submission that an exception of a handler ended has a timestamp.

        The struct has none before the ioctl. # src: downstream kgsl kgsl_ioctl_gpu_command() writes
        it where the commands were queued, kgsl_ioctl_helper() copies the struct out
        """
        raw = self._command.raw
        (last,) = _timestamp(raw, _TIMESTAMP_AT)
        if last:
            self.last = last
            _TIMESTAMP.pack_into(raw, _TIMESTAMP_AT, 0)
        return bool(last)

    def _destroy(self) -> None:
        gpu, number = self.gpu, self.number
        self.number = 0  # first: its reset state is not asked for any more
        if not gpu.forked:
            CONTEXT_DESTROY(gpu.world, gpu.fd, ContextDestroy(drawctxt_id=number))

    def close(self) -> None:
        """Stop the context and its work, and free its memory. A second close does nothing."""
        self.doorbell = _closed
        for name in ("_objects", "ring_view"):
            if hasattr(self, name):
                setattr(self, name, memoryview(bytearray(LIST_BYTES)))
        undo, self._undo = self._undo, []
        run_all(reversed(undo))


def _closed(value: int) -> None:
    raise UseAfterFree("a closed context was used", hint="open another one")


DEAD: Final = frozenset({errno.EDEADLK, errno.EPROTO})
"""The context was invalidated after a fault. # src: downstream kgsl, adreno_dispatch.c"""
