"""GEM_SUBMIT: what the kernel checks of a submission.

src: Linux 6.12, drivers/gpu/drm/msm/msm_gem_submit.c
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace

from boards.machine.records import Record
from boards.qcom.cp.faults import PAGE_FAULT, GpuFault
from boards.qcom.engine import Job
from boards.qcom.hardware import AdrenoGpu, AdrenoHardware
from boards.qcom.msm import abi
from boards.qcom.msm.gem import Bo, Fence, Gem
from boards.qcom.msm.queues import Queue, Queues
from boards.qcom.msm.syncobjs import Syncobjs
from boards.qcom.msm.vm_bind import VmBind
from boards.qcom.space import Space
from boards.qcom.user import UserMemory

_MOST = 1 << 16
_RESET = 1
_LAST_FENCE = (1 << 31) - 1


class Submits:
    """Submissions of one open file."""

    def __init__(
        self, hardware: AdrenoHardware, gpu: AdrenoGpu, pid: int, user: UserMemory, gem: Gem,
        queues: Queues, syncobjs: Syncobjs, fence: Callable[[int], Fence],
    ) -> None:  # fmt: skip
        self._hardware, self._gpu, self._pid, self._user = hardware, gpu, pid, user
        self._gem, self._queues, self._syncobjs, self._fence = gem, queues, syncobjs, fence
        self.vm: VmBind | None = None
        """Where the process has chosen VM_BIND: what is mapped."""
        self.faults = 0
        """Of its address space: hangs, and where a board is to stop at them, page faults."""
        rules = hardware.rules
        self._rules, self._hang_ms = rules, rules.number("hang_ms")
        looks = "hang_retries" in rules
        self._stuck_ms = self._hang_ms * (2 if looks else 1)
        """In one place: the first look at where it is sees another place than before."""
        self._patience_ms = (
            (self._hang_ms, self._hang_ms * (rules.number("hang_retries") + 1))
            if looks
            else (0, self._hang_ms)
        )

    def submit(self, args: SimpleNamespace) -> Fence:
        """Checked and queued: what signals when it has ended. Raises: OSError."""
        self._flags(args)
        if self.vm is not None:
            self.vm.check()
        queue = self._queues.get(args.queueid)
        if queue.binds:
            raise OSError(errno.EINVAL, f"queue {queue.id} takes VM_BIND alone")
        bos = self._bos(args)
        space = self._space(bos)
        try:
            streams = self._commands(args, bos)
            waits = self._waits(args, bos)
            outs = self._syncs(args.out_syncobjs, args.nr_out_syncobjs, args,
                               wanted=args.flags & abi.SYNCOBJ_OUT)  # fmt: skip
            number = self._number(args, queue)
        except OSError:
            self._drop(space)
            raise
        fence = partial(queue.passed, number)
        for item in outs:
            self._syncobjs.get(item.handle).put(item.point, fence)
        for bo, flags in bos:
            (bo.writers if flags & 2 else bo.readers)[queue.id] = fence
        queue.pending.add(number)
        args.fence = number
        self._gpu.engine.submit(Job(
            owner=queue, space=space, streams=streams, limit_ms=self._stuck_ms, ring=0,
            patience_ms=self._patience_ms,
            ready=lambda: all(wait() for wait in waits),
            done=lambda fault: self._retire(queue, number, space, fault),
        ))  # fmt: skip
        return fence

    def _flags(self, args: SimpleNamespace) -> None:
        if args.pad or args.flags & abi.PIPE_MASK != abi.PIPE_3D0:
            raise OSError(errno.EINVAL, f"a submission of flags {args.flags:#x}")
        known = abi.SUBMIT_FLAGS | (abi.FENCE_SN_IN if "fence_number" in self._rules else 0)
        if args.flags & ~abi.PIPE_MASK & ~known or args.flags & abi.SUDO:
            raise OSError(errno.EINVAL, f"a submission of flags {args.flags:#x}")
        if max(args.nr_bos, args.nr_cmds, args.nr_in_syncobjs, args.nr_out_syncobjs) > _MOST:
            raise OSError(errno.ENOMEM, "too many objects in a submission")

    def _list(self, va: int, count: int, record: Record, stride: int = 0) -> list[SimpleNamespace]:
        size = stride or record.nbytes
        data = self._user.load(va, size * count) if count else b""
        return [record.load(data[at : at + size]) for at in range(0, len(data), size)]

    def _bos(self, args: SimpleNamespace) -> list[tuple[Bo, int]]:
        items = self._list(args.bos, args.nr_bos, abi.SUBMIT_BO)
        for item in items:
            refused = item.flags & ~self._rules.number("bo_flags")
            if refused or not item.flags & abi.BO_SUBMIT_MANDATORY:
                raise OSError(errno.EINVAL, f"a buffer object of flags {item.flags:#x}")
        found = [(self._gem.get(item.handle, errno.EINVAL), item.flags) for item in items]
        if len({bo.handle for bo, _ in found}) < len(found):
            raise OSError(errno.EINVAL, "a buffer object twice in a list")
        return found

    def _space(self, bos: Sequence[tuple[Bo, int]]) -> Space:
        """What is mapped while it runs: the objects of its list, and no others."""
        if self.vm is not None:
            return self.vm.space
        made = Space(self._hardware.forgive)
        for bo, _ in bos:
            self._gem.address(bo)
            made.map(bo.mapping())
        return made

    def _drop(self, space: Space) -> None:
        if self.vm is not None:
            return
        for mapping in space.mappings:
            self._hardware.memory.drop(mapping.memory)

    def _commands(
        self, args: SimpleNamespace, bos: Sequence[tuple[Bo, int]]
    ) -> list[tuple[int, int]]:
        found = []
        for item in self._list(args.cmds, args.nr_cmds, abi.SUBMIT_CMD):
            if item.type not in (abi.CMD_BUF, abi.CMD_IB_TARGET, abi.CMD_CTX_RESTORE):
                raise OSError(errno.EINVAL, f"commands of type {item.type}")
            if self.vm is not None:
                found.append(self._at_address(item))
                continue
            if item.size % 4 or item.submit_idx >= len(bos):
                raise OSError(
                    errno.EINVAL, f"{item.size} bytes of commands in no. {item.submit_idx}"
                )
            bo = bos[item.submit_idx][0]
            if not item.size or item.size + item.submit_offset > bo.memory.nbytes:
                raise OSError(errno.EINVAL, f"{item.size} bytes of commands in {bo.memory.name}")
            if item.nr_relocs:
                raise OSError(errno.EINVAL, "relocations are not modelled")
            if item.type == abi.CMD_BUF:
                found.append((bo.iova + (item.submit_offset & ~3), self._words(item.size)))
        return found

    def _words(self, nbytes: int) -> int:
        """As CP_INDIRECT_BUFFER has them. # src: a6xx_gpu.c a6xx_submit()"""
        return nbytes // 4 & self._rules.number("ib_words_cut")

    def _at_address(self, item: SimpleNamespace) -> tuple[int, int]:
        """With VM_BIND: the union of `relocs` is the address."""
        if item.size % 4 or not item.size or item.nr_relocs:
            raise OSError(errno.EINVAL, f"{item.size} bytes of commands")
        if item.submit_idx or item.submit_offset:
            raise OSError(errno.EINVAL, "submit_idx and submit_offset are zero with VM_BIND")
        return item.relocs, self._words(item.size)

    def _syncs(
        self, va: int, count: int, args: SimpleNamespace, *, wanted: int
    ) -> list[SimpleNamespace]:
        if not wanted:
            return []
        if args.syncobj_stride and args.syncobj_stride < abi.SUBMIT_SYNCOBJ.nbytes:
            raise OSError(errno.EINVAL, f"a stride of {args.syncobj_stride}")
        found = self._list(va, count, abi.SUBMIT_SYNCOBJ, args.syncobj_stride)
        for item in found:
            if item.flags & ~_RESET:
                raise OSError(errno.EINVAL, f"a sync object of flags {item.flags:#x}")
            self._syncobjs.get(item.handle)
        return found

    def outs(self, args: SimpleNamespace) -> list[SimpleNamespace]:
        """Sync objects that a request signals. Raises: OSError."""
        return self._syncs(args.out_syncobjs, args.nr_out_syncobjs, args, wanted=1)

    def _waits(self, args: SimpleNamespace, bos: Sequence[tuple[Bo, int]]) -> list[Fence]:
        found: list[Fence] = []
        if args.flags & abi.FENCE_FD_IN:
            found.append(self._fence(args.fence_fd))
        for item in self._syncs(args.in_syncobjs, args.nr_in_syncobjs, args,
                                wanted=args.flags & abi.SYNCOBJ_IN):  # fmt: skip
            obj = self._syncobjs.get(item.handle)
            fence = obj.fence(item.point)
            if fence is None:
                raise OSError(errno.EINVAL, f"sync object {item.handle} has no fence yet")
            found.append(fence)
            if item.flags & _RESET:
                obj.points.clear()
        if not args.flags & 0x8000_0000:
            for bo, flags in bos:
                if not flags & 8:
                    found += bo.waits(write=bool(flags & 2))
        return found

    @staticmethod
    def _number(args: SimpleNamespace, queue: Queue) -> int:
        if args.flags & abi.FENCE_SN_IN:
            if not 0 < args.fence <= _LAST_FENCE or args.fence in queue.pending:
                raise OSError(errno.EINVAL, f"fence {args.fence}")
            queue.last = args.fence
        else:
            queue.last = queue.last % _LAST_FENCE + 1
        return queue.last

    def _retire(self, queue: Queue, number: int, space: Space, fault: GpuFault | None) -> None:
        queue.pending.discard(number)
        self._drop(space)
        if fault is None:
            return
        log = self._hardware.log
        if fault.kind == PAGE_FAULT:
            self.faults += 1
            what = f"iova={fault.va:016x} dir={fault.access.upper()} type=TRANSLATION source=SP"
            log.append(f"msm_dpu: *** gpu fault: ttbr0=0 {what}: {fault.why}")
            return
        self._gpu.faults += 1
        self.faults += 1
        queue.faults += 1
        if self.vm is not None:
            self.vm.unusable = True
        log.append(f"msm_dpu: hangcheck recover! offending task: pid {self._pid}: "
                   f"{fault.kind}, {fault.why}")  # fmt: skip
