"""Files that a command of a board writes where its user says: plain ones, never through a link."""

from __future__ import annotations

import errno
import os
import stat
from io import FileIO, TextIOWrapper
from pathlib import Path

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def new_text(path: Path) -> TextIOWrapper:
    """An empty file, line by line on its way to the disk. One that is there is cut.

    Raises: OSError; a link, a pipe, a file of somebody else and one with a second name are EPERM,
    and stay as they are.
    """
    try:
        fd = os.open(path, _FLAGS, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a pipe without a reader
            raise _not_plain(path) from error
        raise
    facts = os.fstat(fd)
    if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_nlink > 1:
        os.close(fd)
        raise _not_plain(path)
    raw = FileIO(fd, "w")
    raw.truncate(0)
    return TextIOWrapper(raw, encoding="utf-8", line_buffering=True)


def _not_plain(path: Path) -> OSError:
    return OSError(errno.EPERM, "it is no plain file of this user: name a new file", str(path))
