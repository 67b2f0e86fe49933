"""/dev/kgsl-3d0 of one process: its requests."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

from boards.machine import host
from boards.qcom.hardware import AdrenoGpu, AdrenoHardware
from boards.qcom.kgsl import abi
from boards.qcom.kgsl.commands import Commands, Ready
from boards.qcom.kgsl.contexts import MOST_QUEUED, Context, Contexts, later
from boards.qcom.kgsl.fault_reports import fault_report
from boards.qcom.kgsl.objects import GpuObject, Objects
from boards.qcom.kgsl.properties import Properties
from boards.qcom.memory import Memory
from boards.qcom.user import UserMemory

_NS_PER_MS = 1_000_000
_FOREVER_MS = 10 * 60 * 1000
"""A wait without an end ends here, on a board where nothing else can happen."""
_ALWAYS_ON_GROUP = 0x1B
_NUMBER_MASK, _SIZE_SHIFT, _SIZE_MASK, _TYPE_SHIFT = 0xFF, 16, 0x3FFF, 8
_METADATA_MOST = 64


class Kgsl:
    """What the kernel keeps of a process that has the node open."""

    def __init__(
        self, hardware: AdrenoHardware, gpu: AdrenoGpu, pid: int, user: UserMemory,
        fence: Callable[[int], Ready], make_fence: Callable[[Ready], int],
        dma_buf: Callable[[int], Memory],
    ) -> None:  # fmt: skip
        self._hardware, self._gpu, self._user = hardware, gpu, user
        self._make_fence, self._dma_buf = make_fence, dma_buf
        self.objects = Objects(hardware)
        self.contexts = Contexts(hardware, gpu, pid, self.objects.space)
        self.properties = Properties(gpu.chip, self.contexts, user)
        self.commands = Commands(self.contexts, self.objects.space, user, fence, hardware.rules)

    def ioctl(self, owner: object, request: int, argument: bytearray) -> None:
        """One request. Raises: OSError ENOTTY and what each says."""
        call = abi.BY_NUMBER.get(request & _NUMBER_MASK)
        if call is None or request >> _TYPE_SHIFT & _NUMBER_MASK != abi.TYPE:
            raise OSError(errno.ENOTTY, f"KGSL has no request {request:#x}")
        if request >> _SIZE_SHIFT & _SIZE_MASK != call.record.nbytes or request != call.request:
            raise OSError(errno.ENOTTY, f"request {request:#x} is {call.request:#x} here")
        if len(argument) < call.record.nbytes:
            raise OSError(errno.EFAULT, f"{len(argument)} bytes of {call.record.nbytes}")
        args = call.record.load(argument)
        args.owner = owner
        self._HANDLERS[call.name](self, args)
        del args.owner
        if call.direction & 2:
            call.record.store(argument, args)

    def close(self, owner: object) -> None:
        """An open file of the process is closed."""
        self.contexts.close(owner)

    def end(self) -> None:
        """The process is gone."""
        self.contexts.close()
        self.objects.close()

    # Properties and contexts

    def _getproperty(self, args: SimpleNamespace) -> None:
        self.properties.read(args)

    def _setproperty(self, args: SimpleNamespace) -> None:
        self.properties.write(args)

    def _drawctxt_create(self, args: SimpleNamespace) -> None:
        made = self.contexts.create(args.flags, args.owner)
        args.flags, args.drawctxt_id = made.flags, made.id

    def _drawctxt_destroy(self, args: SimpleNamespace) -> None:
        self.contexts.destroy(self.contexts.get(args.drawctxt_id))

    def _get_fault_report(self, args: SimpleNamespace) -> None:
        if not self._hardware.fault_info:
            raise OSError(errno.ENOTTY, "this KGSL keeps no faults")
        fault_report(self._user, self.contexts.get(args.context_id), args)

    # Memory

    def _gpuobj_alloc(self, args: SimpleNamespace) -> None:
        if args.metadata_len > _METADATA_MOST:
            args.metadata_len = _METADATA_MOST
        if args.metadata_len:
            self._user.load(args.metadata, args.metadata_len)
        made = self.objects.alloc(args.size, args.flags)
        args.flags, args.id, args.size = made.flags, made.id, made.nbytes
        args.mmapsize = made.memory.nbytes

    def _gpumem_alloc_id(self, args: SimpleNamespace) -> None:
        made = self.objects.alloc(args.size, args.flags)
        args.id, args.flags, args.gpuaddr = made.id, made.flags, made.gpu_va
        args.size, args.mmapsize = made.nbytes, made.memory.nbytes

    def _gpumem_alloc(self, args: SimpleNamespace) -> None:
        made = self.objects.alloc(args.size, args.flags & ~abi.MEM_CPU_MAP)
        args.gpuaddr, args.size, args.flags = made.gpu_va, made.memory.nbytes, made.flags

    def _gpumem_free_id(self, args: SimpleNamespace) -> None:
        self.objects.free(self.objects.get(args.id))

    def _sharedmem_free(self, args: SimpleNamespace) -> None:
        self.objects.free(self.objects.at(args.gpuaddr))

    def _gpuobj_free(self, args: SimpleNamespace) -> None:
        """Also once a timestamp has passed; here at once, since freed memory stays while used."""
        made = self.objects.get(args.id)
        if args.flags & ~1:
            raise OSError(errno.EINVAL, f"GPUOBJ_FREE of flags {args.flags:#x}")
        if args.flags & 1:
            if args.type != 1 or args.len != abi.SYNC_TIMESTAMP.nbytes:
                raise OSError(errno.EINVAL, f"an event of type {args.type}")
            wanted = abi.SYNC_TIMESTAMP.load(self._user.load(args.priv, args.len))
            context = self.contexts.get(wanted.context_id)
            self._wait(partial(context.settled, wanted.timestamp), _FOREVER_MS)
        self.objects.free(made)

    def _gpuobj_info(self, args: SimpleNamespace) -> None:
        made = self.objects.get(args.id)
        args.gpuaddr, args.flags, args.size = made.gpu_va, made.flags, made.nbytes
        args.va_len, args.va_addr = made.memory.nbytes, 0

    def _gpumem_get_info(self, args: SimpleNamespace) -> None:
        made = self.objects.get(args.id) if args.id else self.objects.at(args.gpuaddr)
        args.gpuaddr, args.id, args.flags = made.gpu_va, made.id, made.flags & 0xFFFFFFFF
        args.size, args.mmapsize, args.useraddr = made.nbytes, made.memory.nbytes, 0

    def _gpumem_sync_cache(self, args: SimpleNamespace) -> None:
        made = self.objects.get(args.id) if args.id else self.objects.at(args.gpuaddr)
        self.objects.sync(made, args.offset, args.length, args.op)

    def _gpuobj_sync(self, args: SimpleNamespace) -> None:
        """An id that is not there is left out. # src: kgsl.c kgsl_ioctl_gpuobj_sync()"""
        most = self._hardware.rules.number("sync_most")
        if not 0 < args.count <= most or not 0 < args.obj_len <= abi.SYNC_OBJ.nbytes:
            raise OSError(errno.EINVAL, f"{args.count} objects of {args.obj_len} bytes to sync")
        rest = bytes(abi.SYNC_OBJ.nbytes - args.obj_len)
        items = [
            abi.SYNC_OBJ.load(self._user.load(args.objs + at, args.obj_len) + rest)
            for at in range(0, args.count * abi.SYNC_OBJ.nbytes, abi.SYNC_OBJ.nbytes)
        ]
        for item in items:
            found = self.objects.by_id.get(item.id)
            if found is not None:
                self.objects.sync(found, item.offset, item.length, item.op)

    def _import(self, va: int, nbytes: int, flags: int) -> GpuObject:
        """Pages of the process. Raises: OSError EINVAL, EFAULT."""
        if not nbytes or va % host.PAGE_BYTES:
            raise OSError(errno.EINVAL, f"{nbytes:#x} bytes at {va:#x} are not whole pages")
        mapped = self.objects.space.find(va)
        if mapped is not None:
            raise OSError(errno.EFAULT, f"{va:#x} is memory of the GPU's")
        pages = self._user.pages(va, host.pages(nbytes))
        memory = self._hardware.memory.of_process(
            f"pages of the process at {va:#x}", pages, pages,
            coherent=self.objects.coherent(flags),
        )  # fmt: skip
        own = va if flags & abi.MEM_CPU_MAP else 0
        made = self.objects.add(memory, flags, nbytes, own)
        made.imported, made.cpu_va = True, va
        return made

    def _map_user_mem(self, args: SimpleNamespace) -> None:
        if args.memtype == abi.USER_MEM_ADDR:
            if args.offset:
                raise OSError(errno.EINVAL, "an offset into an address of the process")
            made = self._import(args.hostptr, args.len, args.flags)
        elif args.memtype == abi.USER_MEM_DMABUF:
            made = self._of_file(args.fd, args.flags)
        else:
            raise OSError(errno.EOPNOTSUPP, f"memory of type {args.memtype}")
        args.gpuaddr = made.gpu_va

    def _of_file(self, fd: int, flags: int) -> GpuObject:
        memory = self._dma_buf(fd)
        memory.holds += 1
        made = self.objects.add(memory, flags & ~abi.MEM_CPU_MAP, memory.nbytes)
        made.imported = True
        return made

    def _gpuobj_import(self, args: SimpleNamespace) -> None:
        if args.type == abi.USER_MEM_ADDR:
            va = int.from_bytes(self._user.load(args.priv, 8), "little")
            made = self._import(va, args.priv_len, args.flags)
        elif args.type == abi.USER_MEM_DMABUF:
            if args.priv_len != 4:
                raise OSError(errno.EINVAL, "a dma-buf is named by 4 bytes")
            fd = int.from_bytes(self._user.load(args.priv, 4), "little", signed=True)
            made = self._of_file(fd, args.flags)
        else:
            raise OSError(errno.ENOTSUP, f"memory of type {args.type}")
        args.flags, args.id = made.flags, made.id

    # Work and time

    def _gpu_command(self, args: SimpleNamespace) -> None:
        context, timestamp, job = self.commands.submit(args)
        if len(context.jobs) >= MOST_QUEUED:
            self._wait(lambda: len(context.jobs) < MOST_QUEUED or context.invalid, 10_000)
        self.contexts.submit(context, timestamp, job)
        args.timestamp = timestamp

    def _wait(self, holds: Ready, timeout_ms: int) -> None:
        """Let time pass until something holds. Raises: OSError ETIMEDOUT."""
        clock = self._hardware.clock
        until_ns = clock.now_ns() + timeout_ms * _NS_PER_MS
        self._hardware.pump()
        while not holds():
            if clock.now_ns() >= until_ns:
                raise OSError(errno.ETIMEDOUT, f"nothing for {timeout_ms} ms")
            self._hardware.skip_to(until_ns)

    def _waittimestamp_ctxtid(self, args: SimpleNamespace) -> None:
        """src: adreno_drawctxt.c adreno_drawctxt_wait(): a timeout of 0 is none at all"""
        context = self.contexts.get(args.context_id)
        self._alive(context)
        self._queued(context, args.timestamp)
        timeout = args.timeout or _FOREVER_MS
        self._wait(partial(context.settled, args.timestamp), min(timeout, _FOREVER_MS))
        self._alive(context)

    @staticmethod
    def _alive(context: Context) -> None:
        """An invalid context is not waited for, whatever has passed. Raises: OSError EDEADLK."""
        if context.invalid:
            raise OSError(errno.EDEADLK, f"context {context.id} was shut down after a fault")

    @staticmethod
    def _queued(context: Context, timestamp: int) -> None:
        """Events are for what was submitted, or for timestamps of the process's own making.

        src: kgsl_events.c kgsl_add_event(). Raises: OSError EINVAL.
        """
        if not context.flags & abi.CTX_USER_TS and later(timestamp, context.queued) > 0:
            raise OSError(errno.EINVAL, f"timestamp {timestamp} was not submitted yet")

    def _readtimestamp_ctxtid(self, args: SimpleNamespace) -> None:
        context = self.contexts.get(args.context_id)
        self._hardware.pump()
        known = {
            abi.TS_CONSUMED: context.started,
            abi.TS_RETIRED: context.retired,
            abi.TS_QUEUED: context.queued,
        }
        if args.type not in known:
            raise OSError(errno.EINVAL, f"timestamps of type {args.type}")
        args.timestamp = known[args.type]

    def _timestamp_event(self, args: SimpleNamespace) -> None:
        context = self.contexts.get(args.context_id)
        if args.type != abi.EVENT_FENCE or args.len != 4:
            raise OSError(errno.EINVAL, f"an event of type {args.type}")
        self._queued(context, args.timestamp)
        fd = self._make_fence(partial(context.settled, args.timestamp))
        self._user.store(args.priv, fd.to_bytes(4, "little"))

    def _perfcounter_read(self, args: SimpleNamespace) -> None:
        if not args.count or args.count > 100:
            raise OSError(errno.EINVAL, f"{args.count} counters to read")
        size = abi.READ_GROUP.nbytes
        data = bytearray(self._user.load(args.reads, size * args.count))
        for at in range(0, len(data), size):
            item = abi.READ_GROUP.load(data[at : at + size])
            if item.groupid != _ALWAYS_ON_GROUP or item.countable:
                raise OSError(errno.EINVAL, f"no counter {item.countable} of {item.groupid:#x}")
            value = self._always_on()
            data[at + 8 : at + 16] = value.to_bytes(8, "little")
        self._user.store(args.reads, bytes(data))

    def _always_on(self) -> int:
        """The counter, of a GPU that is switched on for it. # src: adreno_perfcounter.c"""
        power = self._gpu.engine.machine.power
        power.wake()
        if not self._gpu.engine.jobs:
            power.rest()
        return power.always_on()

    _HANDLERS: ClassVar[dict[str, Callable[[Kgsl, SimpleNamespace], None]]] = {
        "getproperty": _getproperty, "setproperty": _setproperty,
        "drawctxt_create": _drawctxt_create, "drawctxt_destroy": _drawctxt_destroy,
        "gpuobj_alloc": _gpuobj_alloc, "gpuobj_free": _gpuobj_free, "gpuobj_info": _gpuobj_info,
        "gpuobj_import": _gpuobj_import, "gpuobj_sync": _gpuobj_sync,
        "gpumem_alloc": _gpumem_alloc, "gpumem_alloc_id": _gpumem_alloc_id,
        "gpumem_free_id": _gpumem_free_id, "gpumem_get_info": _gpumem_get_info,
        "gpumem_sync_cache": _gpumem_sync_cache, "sharedmem_free": _sharedmem_free,
        "map_user_mem": _map_user_mem, "gpu_command": _gpu_command,
        "waittimestamp_ctxtid": _waittimestamp_ctxtid,
        "readtimestamp_ctxtid": _readtimestamp_ctxtid,
        "timestamp_event": _timestamp_event, "perfcounter_read": _perfcounter_read,
        "get_fault_report": _get_fault_report,
    }  # fmt: skip
