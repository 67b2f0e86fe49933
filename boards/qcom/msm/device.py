"""One open render node of msm: its requests.

src: Linux 5.15 to 7.3, drivers/gpu/drm/msm/msm_drv.c, drivers/gpu/drm/drm_ioctl.c; behaviour.txt
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

from boards.machine import host
from boards.qcom.hardware import AdrenoGpu, AdrenoHardware
from boards.qcom.memory import Memory
from boards.qcom.msm import abi, params
from boards.qcom.msm.gem import Bo, Fence, Gem
from boards.qcom.msm.queues import Queues
from boards.qcom.msm.submit import Submits
from boards.qcom.msm.syncobjs import Syncobj, Syncobjs
from boards.qcom.msm.vm_bind import VmBind
from boards.qcom.user import UserMemory

_NS_PER_S = 1_000_000_000
_NUMBER_MASK, _TYPE_SHIFT = 0xFF, 8
_SIZE_SHIFT, _SIZE_MASK, _DIRECTION_SHIFT = 16, 0x3FFF, 30
"""A size other than the kernel's is taken, as drm_ioctl() does: what is not there is zero."""
_PREP_READ, _PREP_WRITE, _PREP_NOSYNC, _PREP_FLAGS = 1, 2, 4, 0xF
_NAME, _DATE, _TEXT = b"msm", b"0", b"MSM Snapdragon DRM"
_CAP_PRIME, _CAP_SYNCOBJ, _CAP_TIMELINE = 0x5, 0x13, 0x14
_WAIT_ALL, _WAIT_FOR_SUBMIT, _WAIT_AVAILABLE = 1, 2, 4
_MOST_HANDLES = 4096
_BIND_FENCE_OUT = 2


class Descriptors:
    """What requests ask of the process's descriptors."""

    def __init__(
        self, fence: Callable[[int], Fence], make_fence: Callable[[Fence], int],
        dma_buf: Callable[[int], Memory], make_dma_buf: Callable[[Memory], int],
        syncobj: Callable[[int], Syncobj], make_syncobj: Callable[[Syncobj], int],
    ) -> None:  # fmt: skip
        self.fence, self.make_fence = fence, make_fence
        self.dma_buf, self.make_dma_buf = dma_buf, make_dma_buf
        self.syncobj, self.make_syncobj = syncobj, make_syncobj


class Msm:
    """What the kernel keeps of an open render node."""

    def __init__(
        self, hardware: AdrenoHardware, gpu: AdrenoGpu, pid: int, user: UserMemory,
        descriptors: Descriptors,
    ) -> None:  # fmt: skip
        self._hardware, self._gpu, self._user, self._fds = hardware, gpu, user, descriptors
        self._rules = hardware.rules
        self._vm_made = False
        """Whether the file has an address space: VM_BIND cannot be chosen any more."""
        self.gem = Gem(hardware, gpu.chip.va_bytes)
        self.queues, self.syncobjs = Queues(), Syncobjs()
        self.submits = Submits(hardware, gpu, pid, user, self.gem, self.queues, self.syncobjs,
                               descriptors.fence)  # fmt: skip

    def ioctl(self, request: int, argument: bytearray) -> None:
        """One request. Raises: OSError EINVAL, ENOTTY and what each says."""
        call = abi.BY_NUMBER.get(request & _NUMBER_MASK)
        if request >> _TYPE_SHIFT & _NUMBER_MASK != abi.TYPE:
            raise OSError(errno.ENOTTY, f"DRM has no request {request:#x}")
        if call is None:
            raise OSError(errno.EINVAL, f"msm has no request {request:#x}")
        size = request >> _SIZE_SHIFT & _SIZE_MASK
        if len(argument) < size:
            raise OSError(errno.EFAULT, f"{len(argument)} bytes of {size}")
        whole = bytearray(argument[:size]).ljust(call.record.nbytes, b"\0")
        args = call.record.load(whole)
        self._HANDLERS[call.name](self, args)
        if call.direction & request >> _DIRECTION_SHIFT & 2:
            call.record.store(whole, args)
            argument[:size] = whole[:size]

    def end(self) -> None:
        """The file is closed."""
        for queue in self.queues.by_id.values():
            for job in self._gpu.engine.jobs:
                if job.owner is queue and self.submits.vm is None:
                    for mapping in job.space.mappings:
                        self._hardware.memory.drop(mapping.memory)
            self._gpu.engine.cancel(queue)
        if self.submits.vm is not None:
            self.submits.vm.end()
        self.gem.end()

    # DRM itself

    def _version(self, args: SimpleNamespace) -> None:
        args.major, args.minor, args.patch = 1, self._rules.number("minor"), 0
        for member, text in (("name", _NAME), ("date", _DATE), ("desc", _TEXT)):
            room, va = getattr(args, f"{member}_len"), getattr(args, member)
            if va and room:
                self._user.store(va, text[:room])
            setattr(args, f"{member}_len", len(text))

    def _get_cap(self, args: SimpleNamespace) -> None:
        known = {_CAP_PRIME: 3, _CAP_SYNCOBJ: 1, _CAP_TIMELINE: 1}
        if args.capability not in known:
            raise OSError(errno.EINVAL, f"capability {args.capability:#x}")
        args.value = known[args.capability]

    def _gem_close(self, args: SimpleNamespace) -> None:
        self.gem.close(self.gem.get(args.handle, errno.EINVAL))

    def _prime_handle_to_fd(self, args: SimpleNamespace) -> None:
        args.fd = self._fds.make_dma_buf(self.gem.get(args.handle).memory)

    def _prime_fd_to_handle(self, args: SimpleNamespace) -> None:
        memory = self._fds.dma_buf(args.fd)
        for bo in self.gem.by_handle.values():
            if bo.memory is memory:
                args.handle = bo.handle
                return
        memory.holds += 1
        args.handle = self.gem.add(memory, abi.BO_WC).handle

    # Sync objects

    def _handles(self, args: SimpleNamespace) -> list[int]:
        if not 0 < args.count_handles <= _MOST_HANDLES:
            raise OSError(errno.EINVAL, f"{args.count_handles} sync objects")
        data = self._user.load(args.handles, 4 * args.count_handles)
        return list(struct.unpack(f"<{args.count_handles}I", data))

    def _points(self, args: SimpleNamespace) -> list[int]:
        if not args.points:
            return [0] * args.count_handles
        data = self._user.load(args.points, 8 * args.count_handles)
        return list(struct.unpack(f"<{args.count_handles}Q", data))

    def _syncobj_create(self, args: SimpleNamespace) -> None:
        args.handle = self.syncobjs.create(args.flags)

    def _syncobj_destroy(self, args: SimpleNamespace) -> None:
        self.syncobjs.destroy(args.handle)

    def _syncobj_handle_to_fd(self, args: SimpleNamespace) -> None:
        found = self.syncobjs.get(args.handle)
        if args.flags & 1:
            fence = found.fence(0)
            if fence is None:
                raise OSError(errno.EINVAL, f"sync object {args.handle} has no fence")
            args.fd = self._fds.make_fence(fence)
        else:
            args.fd = self._fds.make_syncobj(found)

    def _syncobj_fd_to_handle(self, args: SimpleNamespace) -> None:
        if args.flags & 1:
            self.syncobjs.get(args.handle).put(0, self._fds.fence(args.fd))
        else:
            args.handle = self.syncobjs.add(self._fds.syncobj(args.fd))

    def _syncobj_reset(self, args: SimpleNamespace) -> None:
        for handle in self._handles(args):
            self.syncobjs.get(handle).points.clear()

    def _syncobj_signal(self, args: SimpleNamespace) -> None:
        for handle in self._handles(args):
            self.syncobjs.signal(handle)
        self._hardware.kick()

    def _syncobj_timeline_signal(self, args: SimpleNamespace) -> None:
        for handle, point in zip(self._handles(args), self._points(args), strict=True):
            self.syncobjs.signal(handle, point)
        self._hardware.kick()

    def _syncobj_query(self, args: SimpleNamespace) -> None:
        values = [self.syncobjs.get(handle).value for handle in self._handles(args)]
        self._user.store(args.points, struct.pack(f"<{len(values)}Q", *values))

    def _syncobj_wait(self, args: SimpleNamespace) -> None:
        args.points = 0
        self._syncobj_timeline_wait(args)

    def _syncobj_timeline_wait(self, args: SimpleNamespace) -> None:
        pairs = list(zip(self._handles(args), self._points(args), strict=True))
        objs = [(self.syncobjs.get(handle), point) for handle, point in pairs]
        if not args.flags & _WAIT_FOR_SUBMIT and any(o.fence(p) is None for o, p in objs):
            raise OSError(errno.EINVAL, "a sync object without a fence")

        def reached(obj: Syncobj, point: int) -> bool:
            fence = obj.fence(point)
            return fence is not None and bool(args.flags & _WAIT_AVAILABLE or fence())

        every = all if args.flags & _WAIT_ALL else any
        self._wait(lambda: every(reached(o, p) for o, p in objs), args.timeout_nsec, errno.ETIME)
        args.first_signaled = next(i for i, (o, p) in enumerate(objs) if reached(o, p))

    def _wait(self, holds: Fence, until_ns: int, number: int) -> None:
        """Let time pass until a moment of the monotonic clock. Raises: OSError."""
        clock = self._hardware.clock
        self._hardware.pump()
        while not holds():
            if clock.now_ns() >= until_ns:
                raise OSError(number, "the time is over")
            self._hardware.skip_to(until_ns)

    # Parameters

    def _get_param(self, args: SimpleNamespace) -> None:
        short = "no_set_param" in self._rules  # a struct without len and pad
        if args.pipe != abi.PIPE_3D0 or (not short and (args.pad or args.len)):
            raise OSError(errno.EINVAL, f"parameter of pipe {args.pipe:#x}")
        if "any_param_makes_vm" in self._rules:
            self._vm_made = True
        args.value = params.read(self._gpu, args.param, self.submits.faults, self._rules)

    def _set_param(self, args: SimpleNamespace) -> None:
        if "no_set_param" in self._rules:
            raise OSError(errno.EINVAL, "no request SET_PARAM")
        text = args.param in (params.COMM, params.CMDLINE)
        if args.pipe != abi.PIPE_3D0 or args.pad or (args.len and not text):
            raise OSError(errno.EINVAL, f"parameter of pipe {args.pipe:#x}")
        if "en_vm_bind" in self._rules and args.param == self._rules.number("en_vm_bind"):
            self._enable_vm_bind(args.value)
            return
        if args.param == params.SYSPROF:
            raise OSError(errno.EPERM, "the process is not root's")
        if not text:
            raise OSError(errno.EINVAL, f"parameter {args.param:#x} cannot be set")
        if args.len > host.PAGE_BYTES:
            raise OSError(errno.EINVAL, f"a text of {args.len} bytes")
        self._user.load(args.value, args.len)

    def _enable_vm_bind(self, value: int) -> None:
        """Before there is an address space. Raises: OSError EBUSY."""
        if len(self.gem.space) or self._vm_made:
            raise OSError(errno.EBUSY, "the file has an address space already")
        va_bytes = self._gpu.chip.va_bytes
        made = VmBind(self._hardware, self.gem, self._user, va_bytes)
        self.submits.vm = made if value else None

    def _vm_bind(self, args: SimpleNamespace) -> None:
        if "vm_bind" not in self._rules:
            raise OSError(errno.EINVAL, "no request VM_BIND")
        vm = self.submits.vm
        if vm is None or not self.queues.get(args.queue_id).binds:
            raise OSError(errno.EINVAL, "VM_BIND without EN_VM_BIND, or on another queue")
        if args.flags & ~_BIND_FENCE_OUT or args.nr_in_syncobjs:
            raise OSError(errno.EINVAL, f"VM_BIND of flags {args.flags:#x}, or after fences")
        vm.bind(args)
        if args.flags & _BIND_FENCE_OUT:
            args.fence_fd = self._fds.make_fence(lambda: True)
        for item in self.submits.outs(args):
            self.syncobjs.signal(item.handle, item.point)

    # Buffer objects

    def _gem_new(self, args: SimpleNamespace) -> None:
        args.handle = self.gem.new(args.size, args.flags).handle

    def _gem_info(self, args: SimpleNamespace) -> None:
        if args.pad:
            raise OSError(errno.EINVAL, "GEM_INFO's pad")
        by_value = args.info in (0, 1, 4, 5)
        since = {4: "info_iova", 5: "info_flags", 6: "info_metadata", 7: "info_metadata"}
        unknown = args.info > 7 or since.get(args.info, "minor") not in self._rules
        if (by_value and args.len) or unknown:
            raise OSError(errno.EINVAL, f"GEM_INFO {args.info}")
        if args.info in (1, 4) and self.submits.vm is not None:
            raise OSError(errno.EINVAL, "with VM_BIND the process has the addresses")
        bo = self.gem.get(args.handle)
        if args.info == 0:
            args.value = bo.offset
        elif args.info == 1:
            args.value = self.gem.address(bo)
        elif args.info == 4:
            self.gem.set_address(bo, args.value)
        elif args.info == 5:
            args.value = bo.flags
        else:
            self._text(bo, args)

    def _text(self, bo: Bo, args: SimpleNamespace) -> None:
        """Names, of at most 31 bytes, and metadata of 128."""
        member, most = ("name", 31) if args.info in (2, 3) else ("metadata", 128)
        if args.info in (2, 6):
            if args.len > most:
                raise OSError(errno.EINVAL, f"{member} of {args.len} bytes")
            setattr(bo, member, self._user.load(args.value, args.len))
            return
        text = getattr(bo, member)
        if args.value and args.len < len(text):
            raise OSError(errno.EINVAL, f"{member} has {len(text)} bytes")
        if args.value and text:
            self._user.store(args.value, text)
        args.len = len(text)

    def _gem_cpu_prep(self, args: SimpleNamespace) -> None:
        if args.op & ~(_PREP_FLAGS if "boost" in self._rules else _PREP_FLAGS >> 1):
            raise OSError(errno.EINVAL, f"CPU_PREP {args.op:#x}")
        bo, write = self.gem.get(args.handle), bool(args.op & _PREP_WRITE)
        if args.op & _PREP_NOSYNC:
            self._hardware.pump()
            if bo.busy(write=write):
                raise OSError(errno.EBUSY, f"{bo.memory.name} is in use")
            return
        until = args.tv_sec * _NS_PER_S + args.tv_nsec
        self._wait(lambda: not bo.busy(write=write), until, errno.ETIMEDOUT)

    def _gem_cpu_fini(self, args: SimpleNamespace) -> None:
        self.gem.get(args.handle)

    def _gem_madvise(self, args: SimpleNamespace) -> None:
        if args.madv > 1:
            raise OSError(errno.EINVAL, f"madvise {args.madv}")
        self.gem.get(args.handle)
        args.retained = 1

    # Work

    def _submitqueue_new(self, args: SimpleNamespace) -> None:
        vm_bind = self.submits.vm is not None
        known = self._rules.number("queue_flags")
        args.id = self.queues.new(args.flags, args.prio, known, vm_bind=vm_bind).id

    def _submitqueue_close(self, args: SimpleNamespace) -> None:
        self.queues.close(args.id)

    def _submitqueue_query(self, args: SimpleNamespace) -> None:
        if args.pad or args.param:
            raise OSError(errno.EINVAL, f"parameter {args.param} of a queue")
        queue = self.queues.get(args.id)
        if args.len:
            self._user.store(args.data, queue.faults.to_bytes(4, "little")[: args.len])

    def _gem_submit(self, args: SimpleNamespace) -> None:
        fence = self.submits.submit(args)
        if args.flags & abi.FENCE_FD_OUT:
            args.fence_fd = self._fds.make_fence(fence)
        self._hardware.kick()

    def _wait_fence(self, args: SimpleNamespace) -> None:
        if args.flags & ~int("boost" in self._rules):
            raise OSError(errno.EINVAL, f"WAIT_FENCE of flags {args.flags:#x}")
        queue = self.queues.get(args.queueid)
        if args.fence > queue.last:
            raise OSError(errno.EINVAL, f"fence {args.fence}, the last one is {queue.last}")
        until = args.tv_sec * _NS_PER_S + args.tv_nsec
        self._wait(partial(queue.passed, args.fence), until, errno.ETIMEDOUT)

    _HANDLERS: ClassVar[dict[str, Callable[[Msm, SimpleNamespace], None]]] = {
        "version": _version, "get_cap": _get_cap, "gem_close": _gem_close,
        "prime_handle_to_fd": _prime_handle_to_fd, "prime_fd_to_handle": _prime_fd_to_handle,
        "syncobj_create": _syncobj_create, "syncobj_destroy": _syncobj_destroy,
        "syncobj_handle_to_fd": _syncobj_handle_to_fd,
        "syncobj_fd_to_handle": _syncobj_fd_to_handle, "syncobj_wait": _syncobj_wait,
        "syncobj_reset": _syncobj_reset, "syncobj_signal": _syncobj_signal,
        "syncobj_timeline_wait": _syncobj_timeline_wait, "syncobj_query": _syncobj_query,
        "syncobj_timeline_signal": _syncobj_timeline_signal,
        "get_param": _get_param, "set_param": _set_param, "gem_new": _gem_new,
        "gem_info": _gem_info, "gem_cpu_prep": _gem_cpu_prep, "gem_cpu_fini": _gem_cpu_fini,
        "gem_madvise": _gem_madvise, "submitqueue_new": _submitqueue_new,
        "submitqueue_close": _submitqueue_close, "submitqueue_query": _submitqueue_query,
        "gem_submit": _gem_submit, "vm_bind": _vm_bind, "wait_fence": _wait_fence,
    }  # fmt: skip
