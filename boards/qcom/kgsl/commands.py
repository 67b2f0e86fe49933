"""GPU_COMMAND: what KGSL checks of a submission.

src: kgsl.c kgsl_ioctl_gpu_command, kgsl_drawobj.c of Qualcomm's downstream kernels
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

from boards.machine.behaviour import Rules
from boards.machine.records import Record
from boards.qcom.engine import Job
from boards.qcom.kgsl import abi
from boards.qcom.kgsl.contexts import Context, Contexts, later
from boards.qcom.space import Space
from boards.qcom.user import UserMemory

_MOST_OBJECTS, _MOST_SYNCS = 100_000, 32
Ready = Callable[[], bool]


class Commands:
    """Submissions of one process."""

    def __init__(
        self, contexts: Contexts, space: Space, user: UserMemory,
        fence: Callable[[int], Ready], rules: Rules,
    ) -> None:  # fmt: skip
        self._contexts, self._space, self._user = contexts, space, user
        self._rules = rules
        self._fence = fence
        """Descriptor to whether its fence has signalled. Raises: OSError."""

    def submit(self, args: SimpleNamespace) -> tuple[Context, int, Job]:
        """GPU_COMMAND, checked and made a job. Raises: OSError EINVAL, EDEADLK, EFAULT."""
        context = self._contexts.get(args.context_id)
        self._counts(args)
        streams = self._streams(args)
        self._objects(args)
        waits = self._syncs(args, context)
        timestamp = self._contexts.timestamp(context, args.timestamp)
        hang_ms = self._rules.number("hang_ms")
        spared = context.flags & abi.CTX_NO_FAULT_TOLERANCE and "hang_spared" in self._rules
        job = Job(
            owner=context, space=self._space, streams=streams, ready=partial(_all, waits),
            ring=context.ring, limit_ms=hang_ms, patience_ms=(0, 0 if spared else hang_ms),
            done=lambda fault: self._contexts.retire(context, timestamp, fault),
        )  # fmt: skip
        return context, timestamp, job

    @staticmethod
    def _counts(args: SimpleNamespace) -> None:
        if max(args.numcmds, args.numobjs) > _MOST_OBJECTS or args.numsyncs > _MOST_SYNCS:
            raise OSError(errno.EINVAL, "too many objects in a submission")
        if args.flags & abi.CMD_SPARSE:
            raise OSError(errno.EINVAL, "sparse submissions are another ioctl")
        if args.flags & abi.CMD_SYNC:
            if not args.numsyncs:
                raise OSError(errno.EINVAL, "a sync submission without sync points")
        elif not args.flags & abi.CMD_MARKER and not args.numcmds:
            raise OSError(errno.EINVAL, "a submission without commands")

    def _list(self, va: int, size: int, count: int, record: Record) -> list[SimpleNamespace]:
        """An array of structs, whose size the caller says."""
        if not count:
            return []
        if not 0 < size <= record.nbytes:
            raise OSError(errno.EINVAL, f"{record.name} of {size} bytes")
        data = self._user.load(va, size * count)
        whole = bytes(record.nbytes - size)
        return [record.load(data[at : at + size] + whole) for at in range(0, len(data), size)]

    def _streams(self, args: SimpleNamespace) -> list[tuple[int, int]]:
        if args.flags & (abi.CMD_SYNC | abi.CMD_MARKER):
            return []
        found = []
        for item in self._list(args.cmdlist, args.cmdsize, args.numcmds, abi.COMMAND_OBJECT):
            if not item.flags & abi.CMDLIST_KINDS:
                raise OSError(errno.EINVAL, f"a command object of flags {item.flags:#x}")
            words = item.size >> 2
            if not item.size or words > self._rules.number("ib_words"):
                raise OSError(errno.EINVAL, f"an indirect buffer of {item.size} bytes")
            va = item.gpuaddr
            if va & 3 and "ib_aligned" in self._rules:
                raise OSError(errno.EINVAL, f"an indirect buffer at {va:#x}")
            if self._space.find(va) is None:
                raise OSError(errno.EINVAL, f"no memory for an indirect buffer at {va:#x}")
            found.append((va, words))
        return found

    def _objects(self, args: SimpleNamespace) -> None:
        for item in self._list(args.objlist, args.objsize, args.numobjs, abi.COMMAND_OBJECT):
            if not item.flags & 0x8:
                raise OSError(errno.EINVAL, f"a memory object of flags {item.flags:#x}")

    def _syncs(self, args: SimpleNamespace, own: Context) -> list[Ready]:
        found: list[Ready] = []
        for item in self._list(args.synclist, args.syncsize, args.numsyncs, abi.SYNCPOINT):
            if item.type == abi.SYNC_TYPE_TIMESTAMP:
                found.append(self._after(item, own))
            elif item.type == abi.SYNC_TYPE_FENCE and item.size == 4:
                fd = int.from_bytes(self._user.load(item.priv, 4), "little", signed=True)
                found.append(self._fence(fd))
            else:
                raise OSError(errno.EINVAL, f"a sync point of type {item.type}")
        return found

    def _after(self, item: SimpleNamespace, own: Context) -> Ready:
        if item.size != abi.SYNC_TIMESTAMP.nbytes:
            raise OSError(errno.EINVAL, f"a timestamp to wait for has {item.size} bytes")
        wanted = abi.SYNC_TIMESTAMP.load(self._user.load(item.priv, item.size))
        context = self._contexts.get(wanted.context_id)
        if context is own and later(wanted.timestamp, own.queued) > 0:
            raise OSError(errno.EINVAL, "a submission that waits for itself, or for later ones")
        return partial(context.settled, wanted.timestamp)


def _all(waits: list[Ready]) -> bool:
    return all(wait() for wait in waits)
