"""Reads and writes at an offset, ioctls and events of descriptors: complete, or a DeviceError."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import select

from drivers.base.errors import BadArgument, DeviceGone, MalformedInput, Unsupported
from drivers.base.oserrors import translate

_EVENT_BYTES = 8
_VALUE_BITS = 31
_LONGEST_WAIT_MS = (1 << _VALUE_BITS) - 1


def ioctl(fd: int, request: int, argument: bytearray | int) -> int:
    """ioctl(2); bytes are changed in place, a number is passed by value.

    Raises: the translated errno; BadArgument for a number that C would read as negative.
    """
    if isinstance(argument, int) and not 0 <= argument < 1 << _VALUE_BITS:
        raise BadArgument(f"ioctl {request:#010x}: {argument} is not passed by value", hint="bytes")
    try:
        result: int = fcntl.ioctl(fd, request, argument, True)
    except OSError as error:
        raise translate(error, f"ioctl {request:#010x} on descriptor {fd}") from error
    return result


def duplicate(fd: int) -> int:
    """fcntl(2) F_DUPFD_CLOEXEC. Raises: the translated errno."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 0)
    except OSError as error:
        raise translate(error, f"duplicate descriptor {fd}") from error


def pread(fd: int, nbytes: int, offset: int) -> bytes:
    """pread(2) of all `nbytes`. Raises: the translated errno, MalformedInput when it ends early."""
    what = f"read {nbytes} bytes of descriptor {fd} at {offset:#x}"
    try:
        data = os.pread(fd, nbytes, offset)
    except OverflowError as error:
        raise BadArgument(f"{what}: {error}") from error
    except OSError as error:
        raise translate(error, what) from error
    if len(data) != nbytes:
        raise MalformedInput(
            f"{what}: {len(data)} came", hint="the file ends there, or more rights are needed"
        )
    return data


def pwrite(fd: int, data: bytes, offset: int) -> None:
    """pwrite(2) of all of `data`. Raises: the translated errno, Unsupported when less is taken."""
    what = f"write {len(data)} bytes of descriptor {fd} at {offset:#x}"
    try:
        written = os.pwrite(fd, data, offset)
    except OverflowError as error:
        raise BadArgument(f"{what}: {error}") from error
    except OSError as error:
        raise translate(error, what) from error
    if written != len(data):
        raise Unsupported(f"{what}: {written} were taken", hint="write less at a time")


def eventfd() -> int:
    """eventfd(2), close-on-exec; a read of it never blocks."""
    try:
        return os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    except OSError as error:
        raise translate(error, "make an eventfd") from error


def poll(fd: int, timeout_s: float) -> bool:
    """Whether a descriptor has something to read within the time; nothing is read.

    Raises: DeviceGone when the other end hung up and nothing is left; the translated errno.
    """
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    try:
        found = waiting.poll(_milliseconds(timeout_s))
    except OSError as error:
        raise translate(error, f"poll descriptor {fd}") from error
    state = found[0][1] if found else 0
    if state and not state & select.POLLIN:
        raise DeviceGone(f"descriptor {fd}: the other end is gone", hint="open the device again")
    return bool(state)


def _milliseconds(seconds: float) -> int:
    """Milliseconds for poll(2): rounded up, at least 0."""
    return math.ceil(min(max(seconds * 1000, 0), _LONGEST_WAIT_MS))


def wait_event(fd: int, timeout_s: float) -> bool:
    """Whether an eventfd was signalled within the time; its count is zero then."""
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    try:
        if not waiting.poll(_milliseconds(timeout_s)):
            return False
        return len(os.read(fd, _EVENT_BYTES)) == _EVENT_BYTES
    except OSError as error:
        if error.errno == errno.EAGAIN:  # another thread took it first
            return False
        raise translate(error, f"wait for descriptor {fd}") from error
