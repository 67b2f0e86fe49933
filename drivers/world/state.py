"""A private directory for locks and records: owned by this user, mode 0700, no links followed.

All access is through a descriptor of the directory, so that it cannot be replaced meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from drivers.base.deadline import polls
from drivers.base.errors import BadArgument, Busy, Denied, MalformedInput
from drivers.base.oserrors import translate
from drivers.world import owned

LIMIT_BYTES = 1 << 16
FOLDER = "unbound"
ROOT_FOLDER = "/run"
"""Root's directory, independent of the environment: empty after a boot, as bindings are."""
OWNER_WAIT_S = 0.05
"""How long a process without the lock waits until its owner has written its number."""
_PID_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9_:.-]{1,100}").fullmatch
_PID = re.compile(rb"([1-9][0-9]{0,9})\n").fullmatch
_TEMPORARY = ".new"


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise translate(error, what) from error


class LinuxState:
    """A StateStore in `base`/unbound. `open` makes it; the constructor does no I/O."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd, self.path = fd, path
        self._held: set[str] = set()

    @classmethod
    def open(cls, base: str, *, make: bool = True) -> LinuxState:
        """Open or make the directory. Raises: Denied when others could write to it or to `base`.

        NotFound without `base`, and without the directory unless `make` creates it.
        """
        path = f"{base}/{FOLDER}"
        with _translated(f"open {base}"):
            parent = owned.open_directory(base)
        try:
            owned.judge(os.fstat(parent), base, owned.OTHERS_WRITE)
            with _translated(f"make {path}"):
                if make:
                    with suppress(FileExistsError):  # made earlier: it is checked below
                        os.mkdir(FOLDER, 0o700, dir_fd=parent)
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                fd = os.open(FOLDER, flags, dir_fd=parent)
        finally:
            os.close(parent)
        try:
            owned.judge(os.fstat(fd), path, stat.S_IRWXG | stat.S_IRWXO)
        except Denied:
            os.close(fd)
            raise
        return cls(fd, path)

    def close(self) -> None:
        """Close the directory; locks stay until they are released."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _file(self, name: str, flags: int) -> int:
        """A regular file of ours in the directory."""
        _checked(name)
        with _translated(f"open {self.path}/{name}"):
            return owned.open_file(name, flags, self._fd, self.path)[0]

    def lock(self, name: str) -> LinuxLock:
        """flock(2). Raises: Busy with the owner's pid, once that is written."""
        if name in self._held:
            raise Busy(f"{name} is held by this process", pid=os.getpid(), hint="close it first")
        fd = self._file(name, os.O_RDWR | os.O_CREAT)
        try:
            with _translated(f"lock {self.path}/{name}"):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(fd, 0)
                os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except Busy as error:
            pid = _owner(fd)
            os.close(fd)
            who = f"process {pid}" if pid else "another process"
            raise Busy(
                f"{name} is held by {who}", pid=pid, hint="wait for it, or end it"
            ) from error
        except BaseException:
            os.close(fd)
            raise
        self._held.add(name)
        return LinuxLock(self, name, fd)

    def forget(self, name: str) -> None:
        """Forget a lock of this process that was released."""
        self._held.discard(name)

    def names(self) -> list[str]:
        """Names of its files, sorted, without half-written ones."""
        with _translated(f"list {self.path}"):
            return sorted(n for n in os.listdir(self._fd) if not n.endswith(_TEMPORARY))

    def read(self, name: str) -> bytes | None:
        """A whole file; None when there is none."""
        if name not in self.names():
            return None
        fd = self._file(name, os.O_RDONLY)
        with open(fd, "rb", buffering=0) as file, _translated(f"read {self.path}/{name}"):
            data = file.read(LIMIT_BYTES + 1)
        if data is None or len(data) > LIMIT_BYTES:
            raise MalformedInput(f"{self.path}/{name} is longer than {LIMIT_BYTES} bytes")
        return data

    def write(self, name: str, data: bytes) -> None:
        """Replace the old file by a new one.

        It outlives this process, however that ends. It need not survive a power loss, which resets
        the drivers' bindings, too; so there is no fsync.
        """
        temporary = _checked(name) + _TEMPORARY
        self.remove(temporary)
        fd = self._file(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with open(fd, "wb", buffering=0) as file, _translated(f"write {self.path}/{name}"):
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with _translated(f"replace {self.path}/{name}"):
            os.rename(temporary, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens when there is none."""
        with _translated(f"remove {self.path}/{name}"), suppress(FileNotFoundError):
            os.unlink(_checked(name), dir_fd=self._fd)


class LinuxLock:
    """A lock of a LinuxState. The kernel releases it when the process dies."""

    def __init__(self, state: LinuxState, name: str, fd: int) -> None:
        self._state, self._name, self._fd = state, name, fd

    def release(self) -> None:
        """Release; the owner's number is erased first, so that no process reads a stale one."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        self._state.forget(self._name)
        try:
            with _translated(f"release {self._name}"):
                os.ftruncate(fd, 0)
        finally:
            os.close(fd)


class _Clock:
    """The real clock, for `polls`."""

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def _owner(fd: int) -> int | None:
    """The process that holds a lock, once it has written its number; None when it does not.

    The number of a dead process was left by a killed owner and is not the new owner's.
    """
    for _ in polls(OWNER_WAIT_S, _Clock()):
        found = _PID(os.pread(fd, _PID_BYTES, 0))
        if found and os.path.exists(f"/proc/{int(found[1])}"):
            return int(found[1])
    return None


def _checked(name: str) -> str:
    if not _NAME(name) or name.startswith("."):
        raise BadArgument(f"{name[:40]!r} is not a name of a file of ours")
    return name
