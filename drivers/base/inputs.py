"""Files that a user names to a command: regular ones, of bounded size.

A FIFO would keep the command waiting for a writer, a device such as /dev/zero has no end.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from io import BufferedReader, FileIO
from typing import BinaryIO

from drivers.base.errors import BadArgument, MalformedInput, NotFound


def read_input(path: str, limit_bytes: int) -> bytes:
    """A whole file. Raises: NotFound, BadArgument, MalformedInput when it is longer."""
    with _opened(path, limit_bytes) as file:
        data = file.read(limit_bytes + 1) or b""
    return _bounded(data, path, limit_bytes)


def read_lines(path: str, limit_bytes: int, line_bytes: int) -> Iterator[bytes]:
    """The lines of a file, one after the other; all of them and each have their limit.

    Raises: as `read_input`.
    """
    read_bytes = 0
    with _opened(path, limit_bytes) as file:
        for _ in range(limit_bytes):
            line = _bounded(file.readline(line_bytes + 1), f"a line of {path}", line_bytes)
            read_bytes += len(line)
            if not line:
                return
            if read_bytes > limit_bytes:  # it grew
                raise _too_long(path, limit_bytes)
            yield line


def _opened(path: str, limit_bytes: int) -> BinaryIO:
    try:
        file: BinaryIO = BufferedReader(FileIO(path, opener=_without_waiting))
    except OSError as error:
        raise NotFound(f"cannot read {path}: {error.strerror}", hint="check the path") from error
    facts = os.fstat(file.fileno())
    if stat.S_ISREG(facts.st_mode) and facts.st_size <= limit_bytes:
        return file
    file.close()
    if stat.S_ISREG(facts.st_mode):
        raise _too_long(path, limit_bytes)
    raise BadArgument(
        f"{path} is no regular file, but a pipe, a socket or a device",
        hint="copy what it gives to a file first",
    )


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def _bounded(data: bytes, what: str, limit_bytes: int) -> bytes:
    if len(data) > limit_bytes:
        raise _too_long(what, limit_bytes)
    return data


def _too_long(what: str, limit_bytes: int) -> MalformedInput:
    return MalformedInput(
        f"{what} is longer than {limit_bytes >> 20} MiB", hint="check that it is the right file"
    )
