"""Directories and files that only root and this user can change.

A path is walked part by part from "/". Each part is opened without following links, and the open
descriptor is checked, so that no part can be replaced between check and use. A part is refused
if it belongs to another user, or if others may write to it, unless it is sticky as /tmp is. A link
is followed if root or this user made it; its target is walked by the same rules.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO, TextIOWrapper

from drivers.base.errors import BadArgument, Denied

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
MOST_PARTS = 256
"""Of a path, with those of its links."""
_PART = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ACL = "system.posix_acl_access"


def open_directory(path: str, *, make: bool = False) -> int:
    """A descriptor of a directory, for dir_fd= and not for reading.

    `make` creates missing parts, mode 0700. The last part may not be a link.
    Raises: OSError; Denied for a part that another user could exchange.
    """
    if not path.startswith("/"):
        path = os.path.join(os.getcwd(), path)
    os.access(path, os.F_OK)  # triggers automounts on the path; O_PATH alone does not
    left, here, parent = _parts(path), "", -1
    with ExitStack() as opened:
        for _ in range(MOST_PARTS):
            if not left:
                return os.dup(parent)
            name = left.pop()
            here = os.path.join(here, name)
            part = _kept(opened, _opened(name, parent, make=make))
            facts = os.fstat(part)
            linked = stat.S_ISLNK(facts.st_mode)
            judge(facts, here, 0 if linked or facts.st_mode & stat.S_ISVTX else OTHERS_WRITE, part)
            if linked and not left:
                raise Denied(f"{here} is a link", hint="name what it leads to")
            if linked:
                left += _parts(os.readlink("", dir_fd=part))
                here = os.path.dirname(here)
            elif stat.S_ISDIR(facts.st_mode):
                parent = part
            else:
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), here)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _parts(path: str) -> list[str]:
    """Parts, the last one first; "/" restarts at the root."""
    parts = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    return [*parts, "/"] if path.startswith("/") else parts


def _kept(opened: ExitStack, fd: int) -> int:
    opened.callback(os.close, fd)
    return fd


def _opened(name: str, parent: int, *, make: bool) -> int:
    try:
        return os.open(name, _PART, dir_fd=parent)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # another process was first: it is checked like any other
        os.mkdir(name, 0o700, dir_fd=parent)
    return os.open(name, _PART, dir_fd=parent)


def judge(facts: os.stat_result, path: str, forbidden: int, fd: int = -1) -> None:
    """Raises: Denied unless root or this user owns it and the `forbidden` bits are clear.

    With `fd`, the user's own private group counts as the user.
    """
    if facts.st_uid not in (0, os.geteuid()):
        raise Denied(f"{path} belongs to user {facts.st_uid}", hint="it has to be this user's")
    wrong = facts.st_mode & forbidden
    if wrong and not (fd >= 0 and wrong == stat.S_IWGRP and _private_group(facts, fd)):
        mode = stat.S_IMODE(facts.st_mode)
        right = "go-w" if forbidden == OTHERS_WRITE else "0700"
        raise Denied(f"{path} has mode {mode:04o}: other users could interfere",
                     hint=f"chmod {right}")  # fmt: skip


def _private_group(facts: os.stat_result, fd: int) -> bool:
    """Whether a group that may write is the user's own, without other members.

    Source: pam_umask(8), "usergroups": such users make directories of mode 0775. With an ACL the
    bits of the group apply to more than the group: acl(5).
    """
    user = os.geteuid()
    if user == 0 or not user == facts.st_uid == facts.st_gid:
        return False
    import grp
    import pwd

    try:
        group, name = grp.getgrgid(user), pwd.getpwuid(user).pw_name
    except KeyError:
        return False
    if group.gr_name != name or not set(group.gr_mem) <= {name}:
        return False
    return _ACL not in os.listxattr(f"/proc/self/fd/{fd}")


def open_file(
    name: str, flags: int, dir_fd: int | None = None, folder: str = ""
) -> tuple[int, os.stat_result]:
    """A plain file of this user, created with mode 0600: no link, one name, never blocking.

    `folder` is what errors call the directory `dir_fd`. Raises: OSError; Denied for anything else.
    """
    try:
        fd = os.open(name, flags | _FILE, 0o600, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a FIFO without a reader
            raise _not_plain(os.path.join(folder, name)) from error
        raise
    facts = os.fstat(fd)
    ours = stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid()
    if ours and facts.st_nlink <= 1:  # 0: another process has replaced it since it was opened
        return fd, facts
    os.close(fd)
    raise _not_plain(os.path.join(folder, name))


def new_file(path: str) -> FileIO:
    """An empty file of this user, for what a user names to be written. One that is there is cut.

    Raises: BadArgument where it cannot be made; Denied for a link, a file of somebody else or with
    a second name, and for what is no file: nothing there is written to.
    """
    try:
        fd, _ = open_file(path, os.O_WRONLY | os.O_CREAT)
        made = FileIO(fd, "w")
        made.truncate(0)
    except OSError as error:
        raise BadArgument(f"{path}: {error.strerror}", hint="Name a file to write") from error
    except Denied as error:
        raise error.advised("Name a new file") from error.__cause__
    return made


def write_text(path: str, text: str) -> None:
    """Write a whole new file. Raises: as `new_file`; BadArgument where it cannot be written."""
    with new_file(path) as raw, _reported(path), TextIOWrapper(raw, encoding="utf-8") as file:
        file.write(text)


@contextmanager
def _reported(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadArgument(
            f"{path}: {error.strerror}", hint="Make room, or name another file"
        ) from error


def _not_plain(path: str) -> Denied:
    return Denied(f"{path} is not a plain file of this user", hint="remove it")


class Folder:
    """A directory of this user that others may not write to; closed with its last reference.

    Raises: OSError, Denied.
    """

    fd = -1

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = open_directory(path, make=True)
        facts = os.fstat(self.fd)
        self._identity = (facts.st_dev, facts.st_ino)
        judge(facts, path, OTHERS_WRITE)

    def lives(self) -> bool:
        """Whether it is still there, and `fd` still this directory."""
        facts = self._facts()
        return facts is not None and facts.st_nlink > 0

    def _facts(self) -> os.stat_result | None:
        """None where `fd` is not this directory any more.

        A program that becomes a daemon closes all descriptors, and their numbers are reused.
        """
        try:
            facts = os.fstat(self.fd)
        except OSError:
            return None
        return facts if (facts.st_dev, facts.st_ino) == self._identity else None

    def names(self) -> list[str]:
        """Its entries, sorted; by a separate descriptor, so that forked processes may list."""
        listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            return sorted(os.listdir(listed))
        finally:
            os.close(listed)

    def read(self, name: str, limit_bytes: int) -> bytes:
        """A whole plain file of this user, or one byte more than `limit_bytes` of it.

        Raises: OSError; Denied for anything else, and for a file that others may write to.
        """
        fd, facts = open_file(name, os.O_RDONLY, self.fd, self.path)
        try:
            judge(facts, os.path.join(self.path, name), OTHERS_WRITE, fd)
            return os.read(fd, min(facts.st_size, limit_bytes) + 1)
        finally:
            os.close(fd)

    def __del__(self) -> None:
        if self.fd >= 0 and self._facts() is not None:
            os.close(self.fd)
