"""What to do about a failed call of the kernel: by what was asked of it, where, and its errno.

The same errno has other causes at another place: ENXIO of open(2) is a node whose module is absent,
ENXIO of ioctl(2) a device that left. Rows are read from the top; where none fits,
`drivers.base.oserrors` has a hint for the errno alone.
"""

from __future__ import annotations

import re
from errno import (
    EACCES,
    EAGAIN,
    EDQUOT,
    EFBIG,
    EINVAL,
    EIO,
    EISDIR,
    ELOOP,
    ENAMETOOLONG,
    ENODEV,
    ENOENT,
    ENOMEM,
    ENOSPC,
    ENOTDIR,
    ENXIO,
    EPERM,
    EROFS,
)
from typing import Final, NamedTuple

from drivers.base.errors import Denied, DeviceError, NotFound

EXECUTE: Final = "make memory executable"
"""How a message begins when mprotect(2) was asked for PROT_EXEC."""


class Row(NamedTuple):
    """One cause."""

    operations: str
    """First words of what was asked, with "|" between them."""
    place: str
    """An expression that fits its path from the beginning; "": calls on memory or descriptors."""
    numbers: tuple[int, ...]
    hint: str
    kind: type[DeviceError] | None = None
    """The class of the error, where it is not the errno's."""


_PROC, _SYS, _FILE = r"/proc(/|$)", r"/sys(/|$)", r"."
_NODE = r"/dev/(?!shm(/|$))"
_DISK = f"(?!{_NODE}|{_PROC}|{_SYS})"
_READS = "open|read|list|readlink|stat|look for"
_WRITES = "open|write|make|lock|replace|remove|release"
_EITHER = f"{_READS}|{_WRITES}"
_DOCTOR = "python -m drivers.doctor"

ROWS: Final = (
    # src: Linux mm/mprotect.c (arch_validate_prot, map_deny_write_exec), security/selinux/hooks.c
    # (file_map_prot_check); systemd.exec(5), MemoryDenyWriteExecute=
    Row(EXECUTE, "", (EACCES, EPERM), "this process may not have memory made executable: switch "
        "off MemoryDenyWriteExecute= of its systemd unit, or allow execmem in SELinux", Denied),
    Row(EXECUTE, "", (ENOMEM,), "too many mappings: free buffers, or raise vm.max_map_count"),
    # src: mmap(2), "ERRORS"
    Row("mmap", "", (EAGAIN,), "raise this user's limit of locked memory (ulimit -l)"),
    Row("mmap", "", (ENOMEM,), "free buffers or close other programs, or raise this process's "
        "limits (ulimit -v, vm.max_map_count)"),
    Row("mmap", "", (EACCES, EPERM), "the file was not opened for this use, or is sealed: open it "
        "for reading and writing"),
    Row("mmap", "", (ENODEV,), "the file cannot be mapped, or its device is gone: open it again"),
    # Of ioctl(2) these are the kernel driver's own words about its objects.
    Row("ioctl", "", (ENOENT,), "the kernel driver has no such object: open the device again"),
    Row("ioctl", "", (EACCES,), f"this request needs more rights: see {_DOCTOR}"),
    Row(_READS, r"/proc/driver/", (ENOENT, ENOTDIR),
        f"the kernel module that shows it is not loaded: {_DOCTOR}"),
    Row(_READS, _PROC, (ENOENT, ENOTDIR), "/proc is not mounted here, or this kernel has no such "
        "file: mount it (`mount -t proc proc /proc`)"),
    Row(_READS, _SYS, (ENOENT, ENOTDIR), "/sys is not mounted here, or the device or its kernel "
        f"module is absent: {_DOCTOR}"),
    Row("write", _SYS, (EACCES, EPERM), "only root may write it: an administrator can, or give "
        "this user the right"),
    Row("write", _SYS, (EINVAL,), "the kernel refuses this value here: see the kernel log (dmesg)"),
    Row("open|stat", _NODE, (ENOENT, ENOTDIR), "its kernel module makes the node, and a container "
        f"has to be given it: {_DOCTOR}"),
    # src: Linux fs/char_dev.c (chrdev_open: ENXIO without a driver of the number); drm_open: ENODEV
    Row("open", _NODE, (ENXIO, ENODEV), "no kernel driver answers at this node: its module is not "
        f"loaded, or the device is gone: {_DOCTOR}"),
    # src: Linux security/device_cgroup.c (EPERM); fs/namei.c, may_open_dev (EACCES, nodev)
    Row("open", _NODE, (EPERM,), "the device rules of a container or service forbid it: start it "
        "with this node (--device=, DeviceAllow=)"),
    Row("open", _NODE, (EACCES,), "add this user to the group that owns the node (render, video); "
        "where it is in it: the file system is mounted nodev"),
    Row(_WRITES, _FILE, (EROFS,), "the file system is mounted read-only: name a directory that can "
        "be written"),
    Row(_WRITES, _DISK, (ENOSPC, EDQUOT), "the disk, or this user's share of it, is full: "
        "free some of it, or name another directory", DeviceError),
    Row(_WRITES, _DISK, (EFBIG,), "files may not be that long: raise this process's limit "
        "(ulimit -f)"),
    Row(_EITHER, f"(?!{_NODE})", (EACCES, EPERM), "this user has no right to the path: see its "
        "owner and mode (`ls -ld`)"),
    Row(_EITHER, f"(?!{_NODE})", (ENOENT,), "check the path", NotFound),
    Row(_EITHER, _FILE, (ENOTDIR, EISDIR, ELOOP, ENAMETOOLONG),
        "check the path, and where its links lead"),
    Row(_EITHER, _DISK, (EIO,), "the disk or its file system failed: see "
        "the kernel log (dmesg)", DeviceError),
    # src: Linux fs/proc/base.c, mem_rw(): no memory of the process is at this offset
    Row("write", _PROC, (EIO, EINVAL), "/proc takes no output: name a file on a disk", DeviceError),
)  # fmt: skip
_ASKED: Final = re.compile(rf"({EXECUTE}|look for|\w+)(?: (/.*))?", re.DOTALL)


def row_of(what: str, number: int) -> Row | None:
    """The row for a call that failed: "open /dev/kfd", "mmap 4096 bytes of descriptor -1"."""
    found = _ASKED.match(what)
    if found is None:
        return None
    operation, path = found[1], found[2] or ""
    for row in ROWS:
        if number in row.numbers and operation in row.operations.split("|"):
            fits = re.match(row.place, path) is not None if path else True
            if fits and bool(row.place) == bool(path):
                return row
    return None
