"""From the kernel's errno to our errors; `drivers.base.oshints` has what depends on the place.

Source: errno(3); the kernel's Documentation/process/adding-syscalls.rst and ioctl(2).
"""

from __future__ import annotations

import errno
import os

from drivers.base.errors import (
    Busy,
    Denied,
    DeviceError,
    DeviceGone,
    DeviceTimeout,
    NotFound,
    OutOfMemory,
    Unsupported,
)
from drivers.base.oshints import row_of

_CLASSES: dict[int, tuple[type[DeviceError], str]] = {
    errno.ENOENT: (NotFound, "see python -m drivers.doctor"),
    errno.ENOTDIR: (NotFound, "check the path"),
    errno.EACCES: (Denied, "this operation needs more rights: see python -m drivers.doctor"),
    errno.EPERM: (Denied, "this operation needs more rights: see python -m drivers.doctor"),
    errno.EROFS: (Denied, "the file system is mounted read-only"),
    errno.EBUSY: (Busy, "close the program that holds it, then try again"),
    errno.ETXTBSY: (Busy, "close the program that holds it, then try again"),
    errno.ENODEV: (DeviceGone, "the device is unplugged or reset: open it again"),
    errno.ENXIO: (DeviceGone, "the device is unplugged or reset: open it again"),
    errno.ESHUTDOWN: (DeviceGone, "the device is unplugged or reset: open it again"),
    errno.EIO: (DeviceGone, "see the kernel log (dmesg), then open the device again"),
    errno.ENOTTY: (Unsupported, "this kernel driver does not know the request"),
    errno.EINVAL: (Unsupported, "this kernel driver refuses the argument"),
    errno.EOPNOTSUPP: (Unsupported, "this kernel driver does not support it"),
    errno.ENOSYS: (Unsupported, "this kernel does not support it"),
    errno.ETIMEDOUT: (DeviceTimeout, "see the kernel log (dmesg), then try again"),
    errno.ETIME: (DeviceTimeout, "see the kernel log (dmesg), then try again"),
    errno.EINTR: (DeviceTimeout, "a signal kept interrupting the call: try again"),
    errno.EMFILE: (DeviceError, "close files, or raise this process's limit (ulimit -n)"),
    errno.ENFILE: (DeviceError, "close programs: the system's table of open files is full"),
    errno.EAGAIN: (Busy, "the device is busy: try again"),
}
_MEMORY = frozenset({errno.ENOMEM, errno.ENOSPC, errno.EDQUOT})


def translate(error: OSError, what: str, requested_bytes: int = 0) -> DeviceError:
    """The DeviceError for `error`; raise it `from error`, so that errno stays in __cause__.

    `what` begins with the operation and, where there is one, its path: the hint depends on both.
    """
    number = error.errno or 0
    message = f"{what}: {os.strerror(number)} ({errno.errorcode.get(number, number)})"
    row = row_of(what, number)
    kind, hint = _CLASSES.get(number, (DeviceError, "see the kernel log (dmesg)"))
    if row is not None:
        kind, hint = row.kind or kind, row.hint
    if number in _MEMORY and (row is None or row.kind is None):
        return OutOfMemory(
            message,
            requested=requested_bytes,
            used=0,
            cached=0,
            limit=0,
            hint=hint if row is not None else "free buffers or close other programs, then retry",
        )
    return kind(message, hint=hint)


def errno_of(error: BaseException) -> int:
    """The errno that a DeviceError carries in __cause__; 0 when there is none."""
    cause = error.__cause__
    return cause.errno or 0 if isinstance(cause, OSError) else 0
