"""Trace events in a file that is complete JSON after every write, so also after a crash.

src: "Trace Event Format", the catapult project's document of the JSON array format; Perfetto reads
the same, https://perfetto.dev/docs/getting-started/other-formats
"""

from __future__ import annotations

import fcntl
import json
import os
import warnings
from collections.abc import Sequence
from typing import Final, TypeAlias

from drivers.base import forks
from drivers.base.errors import BadArgument, Denied, DeviceError
from drivers.base.oserrors import translate
from drivers.world.owned import open_file

Event: TypeAlias = dict[str, object]
Facts: TypeAlias = dict[str, int | str]
"""What a viewer shows of one event."""
MAX_BYTES: Final = 1 << 30
"""Of one file: viewers load all of it."""
_BEGIN: Final = b"[\n"
_END: Final = b"\n]\n"


def complete(
    name: str, category: str, facts: Facts, place: tuple[int, int], times_ns: tuple[int, int]
) -> Event:
    """A slice ("X") of a track, at (process, thread); the format counts microseconds."""
    (pid, tid), (begin_ns, end_ns) = place, times_ns
    return {
        "name": name, "cat": category, "ph": "X", "ts": begin_ns / 1e3,
        "dur": (end_ns - begin_ns) / 1e3, "pid": pid, "tid": tid, "args": facts,
    }  # fmt: skip


def titled(kind: str, place: tuple[int, int], value: str) -> Event:
    """What a viewer calls a process or a track: "process_name", "thread_name"."""
    pid, tid = place
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": value}}


class TimelineFile:
    """One process's file. `path` is where it is: another one where that is another process's.

    Raises: BadArgument, or the translated errno, where it cannot be written; Denied for a link, for
    what is no plain file, and for a file of another user.
    """

    def __init__(self, path: str) -> None:
        self.path, self._fd = _taken(path)
        self._at = len(_BEGIN)
        self._empty = True
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, _BEGIN + _END, 0)
        except OSError as error:  # a full disk; a file of /proc, which is plain
            self.close()
            raise translate(error, f"write {self.path}") from error
        forks.inherit(self)

    @property
    def open(self) -> bool:
        """Whether events are still written."""
        return self._fd >= 0

    def write(self, events: Sequence[Event]) -> None:
        """Append events, before the bracket that ends the file.

        A file that cannot take them is closed with a warning: the program goes on.
        """
        if not events or not self.open:
            return
        text = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
        data = (b"" if self._empty else b",\n") + text.encode()
        try:
            if self._at + len(data) > MAX_BYTES:
                raise BadArgument(f"{self.path} has {MAX_BYTES} bytes", hint="Trace less")
            self._put(data + _END)
        except DeviceError as error:
            warnings.warn(f"UNBOUND_TRACE ends here: {error}", RuntimeWarning, stacklevel=2)
            self.close()
            return
        self._at += len(data)
        self._empty = False

    def _put(self, data: bytes) -> None:
        """One write, so that a process that is killed leaves whole events."""
        try:
            if os.pwrite(self._fd, data, self._at) != len(data):
                raise BadArgument(f"{self.path}: the disk is full", hint="Free some of it")
        except OSError as error:
            raise translate(error, f"write {self.path}") from error

    def after_fork(self) -> None:
        """In a child: the file is the parent's."""
        self.close()

    def close(self) -> None:
        """Write nothing more. A second close does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _taken(path: str) -> tuple[str, int]:
    """A file that no other process has: PATH, else with the process's number before its suffix."""
    root, suffix = os.path.splitext(path)
    for name in (path, f"{root}.{os.getpid()}{suffix}"):
        fd = _opened(name)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
        else:
            return name, fd
    raise BadArgument(f"{path} is another process's", hint="Name another file")


def _opened(path: str) -> int:
    try:
        return open_file(path, os.O_WRONLY | os.O_CREAT)[0]
    except OSError as error:
        raise BadArgument(f"{path}: {error.strerror}", hint="Name a file to write") from error
    except Denied as error:
        raise error.advised("Name a new file") from error.__cause__
