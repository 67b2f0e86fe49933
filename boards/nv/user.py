"""Memory of the process that a struct points to."""

from __future__ import annotations

import errno
from types import SimpleNamespace

from boards.machine import host
from boards.machine.records import Record
from boards.nv import status
from boards.nv.status import RmError


def load(va: int, nbytes: int) -> bytearray:
    """copy_from_user. Raises: OSError EFAULT."""
    return bytearray(host.user_bytes(va, nbytes))


class UserRecord:
    """A struct in the process's memory: loaded, and stored again when the request is done."""

    def __init__(self, record: Record, va: int, nbytes: int) -> None:
        """Raises: RmError INVALID_ARGUMENT for another size, OSError EFAULT."""
        if nbytes != record.nbytes:
            why = f"{record.name} of {nbytes} bytes: this driver has {record.nbytes}"
            raise RmError(status.INVALID_ARGUMENT, why)
        self._record, self._va = record, va
        self._data = load(va, nbytes)
        self.values: SimpleNamespace = record.load(self._data)

    def store(self) -> None:
        """copy_to_user. Raises: OSError EFAULT."""
        self._record.store(self._data, self.values)
        host.copy_to_user(self._va, bytes(self._data))


def pin(va: int, nbytes: int, *, write: bool) -> None:
    """Pages that stay. Raises: OSError EFAULT."""
    host.user_bytes(va, nbytes)
    if write and not host.writable(va, nbytes):
        raise OSError(errno.EFAULT, f"the process cannot write to {va:#x}+{nbytes:#x}")
