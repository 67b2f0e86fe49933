"""Files named on a command line: regular ones, of bounded size.

A FIFO would block the command until there is a writer; a device such as /dev/zero has no end.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Generator
from gzip import GzipFile
from io import BufferedReader, FileIO
from typing import Any, BinaryIO, Final

from drivers.base.errors import BadArgument, MalformedInput, NotFound

_GZIP: Final = b"\x1f\x8b"
"""How a file of gzip's begins. # src: RFC 1952, 2.3.1, ID1 and ID2"""
MOST_RATIO: Final = 100
FREE_BYTES: Final = 32 << 20
"""A packed file gives so many bytes for each of its own, and so many beside. Deflate reaches 1032
to 1: a small file of zeros that were read back is right, 1 GiB in 1 MiB is not."""


def read_input(path: str, limit_bytes: int) -> bytes:
    """A whole file. Raises: NotFound, BadArgument, MalformedInput when it is longer."""
    with _opened(path, limit_bytes) as file:
        data = file.read(limit_bytes + 1) or b""
    return _bounded(data, path, limit_bytes)


def read_lines(path: str, limit_bytes: int, line_bytes: int) -> Generator[bytes, None, None]:
    """The lines of a file, with a limit for each and for all of them.

    A gzip file is unpacked as far as lines are asked for, and the limits apply to its contents; it
    has a third one, `MOST_RATIO`. Raises: as `read_input`; MalformedInput for a damaged one.
    """
    read_bytes = 0
    with _opened(path, limit_bytes) as packed, _unpacked(packed) as file:
        most = FREE_BYTES + MOST_RATIO * os.fstat(packed.fileno()).st_size
        for _ in range(limit_bytes):
            line = _bounded(_line(file, path, line_bytes), f"a line of {path}", line_bytes)
            read_bytes += len(line)
            if not line:
                return
            if read_bytes > limit_bytes:  # it grew
                raise _too_long(path, limit_bytes)
            if read_bytes > most:
                raise MalformedInput(
                    f"{path} unpacks to more than {MOST_RATIO} times its size",
                    hint="check that it is the right file",
                )
            yield line


def _unpacked(file: BinaryIO) -> BinaryIO:
    """The same file, or the contents of a gzip file."""
    first = file.read(len(_GZIP))
    file.seek(0)
    if first != _GZIP:
        return file
    unpacked: Any = GzipFile(fileobj=file, mode="rb")
    return BufferedReader(unpacked)


def _line(file: BinaryIO, path: str, line_bytes: int) -> bytes:
    try:
        return file.readline(line_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise MalformedInput(f"{path} cannot be read: {error}", hint="copy it once more") from error


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
        f"{path} is not a regular file, but a pipe, a socket or a device",
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
