"""A submit queue of msm: its command memory, and the ioctl that submits from it."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from typing import Final, Protocol

from drivers.base.contracts import Region, World
from drivers.base.errors import DeviceTimeout, UseAfterFree
from drivers.base.oserrors import errno_of
from drivers.base.undo import Step, Undo, run_all
from drivers.gpu.iface import Memory, Use
from drivers.qcom import mapping
from drivers.qcom.clock import NS_PER_S
from drivers.qcom.iface import Plan
from drivers.qcom.msm import memory
from drivers.qcom.msm.abi import (
    CMD_BUF,
    GEM_SUBMIT,
    NO_IMPLICIT,
    PIPE_3D0,
    QUEUE_CLOSE,
    QUEUE_NEW,
    WAIT_FENCE,
    GemSubmit,
    QueueClose,
    SubmitCmd,
    SubmitQueue,
    WaitFence,
)
from drivers.qcom.msm.bind import unusable
from drivers.qcom.msm.memory import MsmMemory

LIST_BYTES: Final = mapping.PAGE_BYTES
FINISH_S: Final = 2.0
"""How long a queue that is closed waits for its work: the kernel ends what hangs in less.
# src: msm_gpu.h DRM_MSM_HANGCHECK_DEFAULT_PERIOD, 500 ms"""
_CMD: Final = struct.Struct("<6IQ")
_PLACE: Final = struct.Struct("<II")
"""Of a command: submit_offset, size."""
_BLOCK_AT: Final = SubmitCmd.SIZE + 8
"""Those of the second command: the block of the ring."""
_PLAYED: Final = 2
"""The first command of the list for graphs; before it is the list for blocks."""
_FENCE_AT: Final = 4
_FENCE: Final = struct.Struct("<I")
_fence: Final = _FENCE.unpack_from


class Gpu(memory.Gpu, Protocol):
    """What a queue needs of its GPU."""

    priorities: int
    """How many there are; 0 is the highest."""


class MsmQueue:
    """A submit queue. `last` is the fence of the last submission; it wraps at 32 bits."""

    def __init__(self, gpu: Gpu, plan: Plan) -> None:
        self.gpu, self.plan = gpu, plan
        self.dead = False
        self.number = -1
        """Its id; -1 while there is none."""
        self.last = self.passed = self.faults = 0
        self._undo: list[Step] = []
        self.doorbell: Callable[[int], None] = _closed
        self.write_pointer = memoryview(bytearray(8)).cast("Q")

    @property
    def running(self) -> bool:
        """Whether it may have work."""
        return self.number >= 0 and not self.dead

    def open(self) -> None:
        """Create everything; a failure undoes what was done."""
        with Undo() as undo:
            undo.add(self.close)
            plan, gpu = self.plan, self.gpu
            size = -(-len(plan.setup) // LIST_BYTES) * LIST_BYTES
            nbytes, name = plan.ring_bytes + size, f"{plan.name}: ring"
            made = memory.allocate(gpu, nbytes, Use.PACKETS, name, host=True)
            self._undo.append(made.free)
            self._held, self.ring = made, _of(made)
            view = made.view()
            self.ring_view = view[: plan.ring_bytes]
            view[plan.ring_bytes : plan.ring_bytes + len(plan.setup)] = plan.setup
            self._list: Region = gpu.world.mmap(-1, LIST_BYTES)
            self._undo.append(self._list.close)
            self._cmds = self._list.view()
            self._submit = GemSubmit(flags=PIPE_3D0 | NO_IMPLICIT)
            self._listed = -1
            self.submit_to(gpu.world)
            call = SubmitQueue(prio=gpu.priorities // 2)  # all in one ring, in order
            self.number = QUEUE_NEW(gpu.world, gpu.fd, call).id
            self._undo.append(self._destroy)

    def submit_to(self, world: World) -> None:
        """Whose ioctl takes submissions; measurements have one of their own."""
        self._call = GEM_SUBMIT.bound(world, self.gpu.fd, self._submit)

    def _cmd(self, place: int, held: MsmMemory, off: int, nbytes: int) -> None:
        at = place * SubmitCmd.SIZE
        if self.gpu.binds is not None:
            _CMD.pack_into(self._cmds, at, CMD_BUF, 0, 0, nbytes, 0, 0, held.gpu_va + off)
        else:
            _CMD.pack_into(self._cmds, at, CMD_BUF, held.listed.index, off, nbytes, 0, 0, 0)

    def _list_again(self) -> None:
        """The list of objects has changed: where it is, and where the ring is in it."""
        objects, call, ring = self.gpu.objects, self._submit, self._held
        changes, number = objects.changes, self.number
        if number < 0:  # a signal handler may have closed it since
            raise _closed_queue()
        for first in (0, _PLAYED):
            self._cmd(first, ring, self.plan.ring_bytes, len(self.plan.setup))
        self._cmd(1, ring, 0, 0)
        call.fence, call.queueid = 0, number
        if self.gpu.binds is None:
            call.bos, call.nr_bos = objects.va, objects.count
        call.cmds, call.nr_cmds = self._list.cpu_va, 2
        self._pair = bytes(call.raw)
        call.cmds, call.nr_cmds = self._list.cpu_va + _PLAYED * SubmitCmd.SIZE, 3
        self._triple = bytes(call.raw)
        self._listed = changes

    def submit(self, va: int, nbytes: int) -> None:
        """Run packets in the ring. Raises: what the kernel refuses."""
        objects = self.gpu.objects
        with objects.lock:
            if self._listed != objects.changes:
                self._list_again()
            if self.gpu.binds is None:
                _PLACE.pack_into(self._cmds, _BLOCK_AT, va - self._held.gpu_va, nbytes)
            else:
                self._cmd(1, self._held, va - self._held.gpu_va, nbytes)
            self._send(self._pair)

    def submit_with(self, held: Memory, va: int, nbytes: int, tail_va: int, tail: int) -> None:
        """Run packets in other memory, then `tail` bytes in the ring."""
        ring, objects = self._held, self.gpu.objects
        other = held if isinstance(held, MsmMemory) else ring
        with objects.lock:
            if self._listed != objects.changes:
                self._list_again()
            self._cmd(_PLAYED + 1, other, va - other.gpu_va, nbytes)
            self._cmd(_PLAYED + 2, ring, tail_va - ring.gpu_va, tail)
            self._send(self._triple)

    def _send(self, form: bytes) -> None:
        try:
            self._call(form)
        except Exception as error:
            if errno_of(error) == errno.EPIPE:
                raise unusable() from error.__cause__
            raise
        (self.last,) = _fence(self._submit.raw, _FENCE_AT)
        _FENCE.pack_into(self._submit.raw, _FENCE_AT, 0)

    def taken(self) -> bool:
        """Whether a submission that an exception of a handler ended has a fence.

        The struct has none before the ioctl. # src: msm_gem_submit.c msm_ioctl_gem_submit() writes
        it where the commands were queued, drm_ioctl() copies the struct out
        """
        raw = self._submit.raw
        (last,) = _fence(raw, _FENCE_AT)
        if last:
            self.last = last
            _FENCE.pack_into(raw, _FENCE_AT, 0)
        return bool(last)

    def _destroy(self) -> None:
        gpu, number = self.gpu, self.number
        self.number = -1
        if not gpu.forked:
            self._finish(number)
            QUEUE_CLOSE(gpu.world, gpu.fd, QueueClose(id=number))

    def _finish(self, number: int) -> None:
        """Wait for its work: closing stops none, nor does a fault of work in front of it.

        # src: msm_submitqueue.c msm_submitqueue_remove() drops a reference, which jobs have, too;
        # msm_gpu.c recover_worker() submits again what was behind a fault (Linux 5.15 to 6.17)
        """
        self.taken()  # a signal handler may close it right behind the ioctl
        if self.last == self.passed:
            return
        until_ns = int((self.gpu.world.monotonic_s() + FINISH_S) * NS_PER_S)
        call = WaitFence(
            fence=self.last, tv_sec=until_ns // NS_PER_S, tv_nsec=until_ns % NS_PER_S,
            queueid=number,
        )  # fmt: skip
        try:
            WAIT_FENCE(self.gpu.world, self.gpu.fd, call)
        except DeviceTimeout:
            return  # what hangs is ended by the kernel, later
        self.passed = self.last

    def close(self) -> None:
        """Close the queue and free its memory. A second close does nothing."""
        self.doorbell = _closed
        for name in ("_cmds", "ring_view"):
            if hasattr(self, name):
                setattr(self, name, memoryview(bytearray(LIST_BYTES)))
        undo, self._undo = self._undo, []
        run_all(reversed(undo))


def _of(held: MsmMemory) -> Memory:
    return held


def _closed(value: int) -> None:
    raise _closed_queue()


def _closed_queue() -> UseAfterFree:
    return UseAfterFree("a closed queue was used", hint="open another one")
