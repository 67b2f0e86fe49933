"""All errors of devices, as one tree under `DeviceError`.

Each class carries its facts as attributes, keeps an `OSError` in `__cause__`, and ends its message
with the next thing to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self


def escaped(text: str) -> str:
    """Text from outside as one line, safe for a terminal: unprintable characters are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class DeviceError(Exception):
    """Base of every error this stack raises on purpose.

    `hint` is the next thing the user can do; it becomes the end of the message. Its text may have
    several lines; other control characters, from a path perhaps, are escaped.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message, self.hint = message, hint
        super().__init__(self._text())

    def _text(self) -> str:
        text = f"{self.message}. {self.hint}" if self.hint else self.message
        return "\n".join(map(escaped, text.split("\n")))

    def named(self, step: str) -> Self:
        """The same error, with the step that failed in front of its message."""
        self.message = f"{step}: {self.message}"
        return self.advised(self.hint)

    def advised(self, hint: str) -> Self:
        """The same error with another next thing to do."""
        self.hint = hint
        self.args = (self._text(),)
        return self


@contextmanager
def during(step: str) -> Iterator[None]:
    """Prefix errors of the block with the step, once."""
    try:
        yield
    except DeviceError as error:
        if not error.message.startswith(f"{step}: "):
            error.named(step)
        raise


class NotFound(DeviceError):
    """A device, node, file or library is not on this machine."""


class Denied(DeviceError):
    """The node exists, but this user may not use it."""


class Busy(DeviceError):
    """Another process owns the device; `pid` names it (None when it cannot be known)."""

    def __init__(self, message: str, *, pid: int | None = None, hint: str = "") -> None:
        self.pid = pid
        super().__init__(message, hint=hint)


class Unsupported(DeviceError):
    """The device, dtype, version or argument is understood, but not supported."""


class BadChoice(DeviceError):
    """A setting (environment variable, option) has a value outside the list in the message."""


class MalformedInput(DeviceError):
    """Bytes from outside break a rule; the message says where and which."""


class FirmwareRejected(DeviceError):
    """A firmware image is not the one its manifest names."""


class OutOfMemory(DeviceError):
    """An allocation did not fit: `requested`, `used`, `cached` and `limit` are in bytes."""

    def __init__(
        self, message: str, *, requested: int, used: int, cached: int, limit: int, hint: str = ""
    ) -> None:
        self.requested, self.used, self.cached, self.limit = requested, used, cached, limit
        super().__init__(message, hint=hint)


class UseAfterFree(DeviceError):
    """A freed buffer, closed device or closed graph was used."""


class DeviceTimeout(DeviceError):
    """A bounded wait ran out; `register` names what was watched, `last` its last value."""

    def __init__(
        self, message: str, *, register: str = "", last: object = None, hint: str = ""
    ) -> None:
        self.register, self.last = register, last
        super().__init__(message, hint=hint)


class DeviceGone(DeviceError):
    """The device left the bus (reads return all ones) or its node disappeared."""


class DeviceFault(DeviceError):
    """The device made an invalid access: `kind`, `gpu_va`, `buffer` and `kernel` say where.

    `queue` is the queue that was running, `access` is "read" (also of code), "write", or
    "atomic" where the hardware tells it apart.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        gpu_va: int = 0,
        buffer: str = "",
        kernel: str = "",
        queue: str = "",
        access: str = "",
        hint: str = "",
    ) -> None:
        self.kind, self.gpu_va, self.buffer, self.kernel = kind, gpu_va, buffer, kernel
        self.queue, self.access = queue, access
        super().__init__(message, hint=hint)


class Hang(DeviceError):
    """A queue makes no progress: `queue` names it, `dump` is its decoded ring."""

    def __init__(self, message: str, *, queue: str, dump: str = "", hint: str = "") -> None:
        self.queue, self.dump = queue, dump
        super().__init__(message, hint=hint)


class CompileError(DeviceError):
    """A compiler failed: `log` is its output, `source` its input."""

    def __init__(self, message: str, *, log: str = "", source: str = "", hint: str = "") -> None:
        self.log, self.source = log, source
        super().__init__(message, hint=hint)


class BadArgument(DeviceError, ValueError):
    """An argument of a call has the wrong kind, size or owner; nothing was submitted."""
