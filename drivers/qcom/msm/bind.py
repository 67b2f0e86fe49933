"""VM_BIND: the process chooses the GPU's addresses, and submissions list no objects.

Linux 6.17 and later have it, and an open file that chose it cannot go back. After a GPU fault msm
makes the file's address space unusable: EPIPE for everything. So it is taken only where asked for.
# src: Linux 6.17, include/uapi/drm/msm_drm.h; msm_gem_vma.c; msm_gpu.c recover_worker()
"""

from __future__ import annotations

import errno
from functools import partial
from threading import RLock
from typing import Final

from drivers.bare.extents import Extents
from drivers.base.contracts import Region, World
from drivers.base.errors import DeviceError, DeviceGone, MalformedInput, OutOfMemory, Unsupported
from drivers.base.ioctl import Ioctl, Struct, i32, i64, u32, u64
from drivers.base.oserrors import errno_of
from drivers.base.pages import PAGE_BYTES
from drivers.base.undo import Step, Undo, run_all
from drivers.qcom import mapping
from drivers.qcom.msm.abi import (
    COMMAND_BASE,
    GET_PARAM,
    PIPE_3D0,
    QUEUE_CLOSE,
    QUEUE_NEW,
    TYPE,
    Param,
    ParamCall,
    QueueClose,
    SubmitQueue,
)

EN_VM_BIND: Final = 0x16
"""MSM_PARAM_EN_VM_BIND; 0x15 is HAS_PRR, which is read alone. Once, before the file has addresses:
then EBUSY. EINVAL without a page table for each process, and in kernels that do not have it.
# src: Linux 6.17, adreno_gpu.c adreno_set_param()"""
BIND_QUEUE: Final = 0x2
"""MSM_SUBMITQUEUE_VM_BIND."""
OP_UNMAP, OP_MAP = 0, 1
GUARD_BYTES: Final = PAGE_BYTES
WAIT_NS: Final = 5_000_000_000
_NS_PER_S: Final = 1_000_000_000
_ARENA_BYTES: Final = mapping.PAGE_BYTES
_SYNC_OFF: Final = 64


class VmBind(Struct, size=88):
    """struct drm_msm_vm_bind with one operation inside."""

    flags: int = u32()
    nr_ops: int = u32()
    fence_fd: int = i32()
    queue_id: int = u32()
    in_syncobjs: int = u64()
    out_syncobjs: int = u64()
    nr_in_syncobjs: int = u32()
    nr_out_syncobjs: int = u32()
    syncobj_stride: int = u32()
    op_stride: int = u32()
    op: int = u32()
    handle: int = u32()
    obj_offset: int = u64()
    iova: int = u64()
    range: int = u64()
    op_flags: int = u32()
    pad: int = u32()


class BindSync(Struct, size=16):
    """struct drm_msm_syncobj."""

    handle: int = u32()
    flags: int = u32()
    point: int = u64()


class SyncHandle(Struct, size=8):
    """struct drm_syncobj_create, drm_syncobj_destroy."""

    handle: int = u32()
    flags: int = u32()


class SyncWait(Struct, size=32):
    """struct drm_syncobj_wait before Linux 6.6, which later kernels take."""

    handles: int = u64()
    timeout_nsec: int = i64()
    count_handles: int = u32()
    flags: int = u32()
    first_signaled: int = u32()
    pad: int = u32()


SET_PARAM = Ioctl("DRM_IOCTL_MSM_SET_PARAM", "W", TYPE, COMMAND_BASE + 0x01, ParamCall)
VM_BIND = Ioctl("DRM_IOCTL_MSM_VM_BIND", "WR", TYPE, COMMAND_BASE + 0x0D, VmBind)
SYNC_CREATE = Ioctl("DRM_IOCTL_SYNCOBJ_CREATE", "WR", TYPE, 0xBF, SyncHandle)
SYNC_DESTROY = Ioctl("DRM_IOCTL_SYNCOBJ_DESTROY", "WR", TYPE, 0xC0, SyncHandle)
SYNC_WAIT = Ioctl("DRM_IOCTL_SYNCOBJ_WAIT", "WR", TYPE, 0xC3, SyncWait)


def unusable() -> DeviceGone:
    """The error for EPIPE."""
    return DeviceGone(
        "msm gave up the address space of this device after a GPU fault (VM_BIND)",
        hint="close the device and open it again, or unset QCOM_VM_BIND",
    )


class Binds:
    """The GPU's addresses of an open file; each mapping is waited for."""

    def __init__(self, world: World, fd: int) -> None:
        self._world, self._fd = world, fd
        self._lock = RLock()
        self._undo: list[Step] = []

    def open(self) -> None:
        """Choose it. Raises: Unsupported where the kernel has no VM_BIND."""
        world, fd = self._world, self._fd
        with Undo() as undo:
            undo.add(self.close)
            try:
                SET_PARAM(world, fd, ParamCall(pipe=PIPE_3D0, param=EN_VM_BIND, value=1))
            except DeviceError as error:
                if errno_of(error) != errno.EINVAL:
                    raise
                raise Unsupported(
                    "this kernel's msm has no VM_BIND",
                    hint="boot Linux 6.17, or unset QCOM_VM_BIND",
                ) from error
            self._free = Extents(*self._range())
            self._arena: Region = world.mmap(-1, _ARENA_BYTES)
            self._undo.append(self._arena.close)
            self._queue = QUEUE_NEW(world, fd, SubmitQueue(flags=BIND_QUEUE)).id
            self._undo.append(partial(QUEUE_CLOSE, world, fd, QueueClose(id=self._queue)))
            self._sync = SYNC_CREATE(world, fd, SyncHandle()).handle
            self._undo.append(partial(SYNC_DESTROY, world, fd, SyncHandle(handle=self._sync)))
            self._arena.write(0, bytes(BindSync(handle=self._sync).raw))
            self._arena.write32(_SYNC_OFF, self._sync)

    def _range(self) -> tuple[int, int]:
        asked = (Param.VA_START, Param.VA_SIZE)
        start, size = (
            GET_PARAM(self._world, self._fd, ParamCall(pipe=PIPE_3D0, param=one)).value
            for one in asked
        )
        if start % PAGE_BYTES or size % PAGE_BYTES or not size or start + size > 1 << 56:
            raise MalformedInput(f"msm has addresses from {start:#x} on, {size:#x} of them")
        return max(start, PAGE_BYTES), start + size

    def map(self, handle: int, nbytes: int) -> int:
        """Where an object is from now on. Raises: OutOfMemory; what msm refuses."""
        with self._lock, Undo() as undo:
            iova = self._free.take(nbytes + GUARD_BYTES, PAGE_BYTES)
            if iova is None:
                raise OutOfMemory(
                    f"no GPU addresses for {nbytes:,} bytes", requested=nbytes, used=0, cached=0,
                    limit=self._free.last - self._free.first, hint="free buffers",
                )  # fmt: skip
            undo.add(partial(self._free.give, iova, nbytes + GUARD_BYTES))
            self._bind(VmBind(op=OP_MAP, handle=handle, iova=iova, range=nbytes))
        return iova

    def unmap(self, iova: int, nbytes: int) -> None:
        """Nothing is there any more. What msm gave up goes with the file."""
        with self._lock:
            try:
                self._bind(VmBind(op=OP_UNMAP, iova=iova, range=nbytes))
            except DeviceGone as gone:
                if errno_of(gone) != errno.EPIPE:
                    raise
                return
            self._free.give(iova, nbytes + GUARD_BYTES)

    def _bind(self, call: VmBind) -> None:
        """Do one operation, and wait for it."""
        call.nr_ops, call.queue_id, call.op_stride = 1, self._queue, 40
        call.out_syncobjs, call.nr_out_syncobjs = self._arena.cpu_va, 1
        call.syncobj_stride = BindSync.SIZE
        try:
            VM_BIND(self._world, self._fd, call)
        except DeviceError as error:
            if errno_of(error) != errno.EPIPE:
                raise
            raise unusable() from error.__cause__
        until_ns = int(self._world.monotonic_s() * _NS_PER_S) + WAIT_NS
        where = self._arena.cpu_va + _SYNC_OFF
        SYNC_WAIT(
            self._world, self._fd, SyncWait(handles=where, timeout_nsec=until_ns, count_handles=1)
        )

    def close(self) -> None:
        """Leave; mappings go with the file. A second close does nothing."""
        undo, self._undo = self._undo, []
        run_all(reversed(undo))
