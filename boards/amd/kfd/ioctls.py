"""ioctl(2) on /dev/kfd: numbers, sizes, copies.

src: amdkfd/kfd_chardev.c kfd_ioctl(): only the number chooses the function; what the caller's
struct lacks is zero, what it has more is left alone.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace

from boards.amd.kfd.process import Process
from boards.amd.kfd.types import IOCTLS

_NR_MASK, _SIZE_SHIFT, _SIZE_MASK, _DIR_SHIFT = 0xFF, 16, 0x3FFF, 30
_WRITE, _READ = 1, 2
"""src: include/uapi/asm-generic/ioctl.h _IOC_*; the direction is the caller's"""
_COPIED_IN = {0x01: False}
"""GET_VERSION only copies out; every other command copies in."""
_NOT_COPIED_OUT = {
    # src: kfd_ioctl.h: _IOW commands
    0x04, 0x07, 0x09, 0x0A, 0x0B, 0x13, 0x15, 0x17, 0x1A,
}  # fmt: skip
_REFUSED = {
    0x0D: errno.EPERM, 0x0E: errno.EPERM, 0x0F: errno.EPERM, 0x10: errno.EPERM,  # old debugger
    0x06: errno.EINVAL,  # the old GET_PROCESS_APERTURES: a struct for seven nodes
    0x22: errno.EACCES,  # CRIU needs CAP_CHECKPOINT_RESTORE
    0x26: errno.ENOSYS,  # DBG_TRAP
}  # fmt: skip


def number_of(request: int) -> int:
    """The command's number."""
    return request & _NR_MASK


def _functions(process: Process) -> dict[str, Callable[[SimpleNamespace], None]]:
    """The functions of the parts; the rest are the process's own methods."""
    return {
        "create_queue": process.queues.create,
        "destroy_queue": process.queues.destroy,
        "update_queue": process.queues.update,
        "destroy_event": lambda args: process.events.destroy(args.event_id),
        "set_event": lambda args: process.events.signal(args.event_id, value=True),
        "reset_event": lambda args: process.events.signal(args.event_id, value=False),
        "wait_events": process.events.wait,
        "alloc_memory_of_gpu": process.memory.alloc,
        "free_memory_of_gpu": process.memory.free,
        "map_memory_to_gpu": process.memory.map,
        "unmap_memory_from_gpu": process.memory.unmap,
        "available_memory": process.memory.available,
    }


class Kfd:
    """The commands of one process. `others` need descriptors, which are the world's."""

    def __init__(
        self, process: Process, others: Mapping[str, Callable[[Process, SimpleNamespace], None]]
    ) -> None:
        self.process = process
        self._functions = _functions(process)
        for name, run in others.items():
            self._functions[name] = partial(run, process)

    def ioctl(self, request: int, argument: bytearray) -> int:
        """Run a command; `argument` is changed in place. Raises: OSError."""
        number = number_of(request)
        if not 0 < number <= self.process.hardware.rules.number("last"):
            raise OSError(errno.ENOTTY, f"no command {number:#x}")
        if number in _REFUSED:
            raise OSError(_REFUSED[number], f"command {number:#x}")
        known = IOCTLS.get(number)
        if known is None:
            raise OSError(errno.EINVAL, f"command {number:#x} is not on a board")
        name, layout = known
        size = request >> _SIZE_SHIFT & _SIZE_MASK
        if len(argument) < size:
            raise OSError(errno.EFAULT, f"{len(argument)} bytes of {size}")
        copied = bytes(argument[:size]) if _COPIED_IN.get(number, True) else b""
        args = layout.unpack(copied)
        run = self._functions.get(name) or getattr(self.process, name)
        if name == "wait_events" or not self.process.hardware.options.late:
            self.process.queues.pump()
        try:
            run(args)
        finally:
            if number not in _NOT_COPIED_OUT:
                result = layout.pack(args)[:size]
                argument[: len(result)] = result
        return 0
