"""The list of objects that each submission over msm carries: the kernel keeps no other in place.

A handle is there once, however many use it: a dma-buf of our own, imported, has the handle that it
had before.
"""

from __future__ import annotations

from threading import RLock
from typing import Final

from drivers.base.contracts import Region, World
from drivers.qcom.mapping import PAGE_BYTES
from drivers.qcom.msm.abi import SubmitBo, SubmitBoFlag

_FLAGS: Final = SubmitBoFlag.READ
"""Each object has READ or WRITE: others are EINVAL. MSM_SUBMIT_BO_NO_IMPLICIT is one of DRM 1.10.0
(Linux 6.3), EINVAL before, and the submission says it for all of its objects anyway.
# src: msm_gem_submit.c submit_lookup_objects(), submit_fence_sync(), Linux 5.15 to 6.17"""


class Listed:
    """An object of the list, and how many use it."""

    __slots__ = ("gpu_va", "handle", "index", "nbytes", "read_only", "users")

    def __init__(self, handle: int, gpu_va: int, nbytes: int, *, read_only: bool) -> None:
        self.handle, self.gpu_va, self.nbytes, self.read_only = handle, gpu_va, nbytes, read_only
        self.index = self.users = 0


class Objects:
    """All objects of a process, as submissions list them. Everything happens with `lock` held."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._table: Region = world.mmap(-1, PAGE_BYTES)
        self._held: list[Listed] = []
        self._by_handle: dict[int, Listed] = {}
        self.changes = 0
        """Counts them: a list that was read at another count is old."""
        self.lock = RLock()

    @property
    def va(self) -> int:
        """Where the list is."""
        return self._table.cpu_va

    @property
    def count(self) -> int:
        """How many objects it has."""
        return len(self._held)

    def add(self, handle: int, gpu_va: int, nbytes: int, *, read_only: bool) -> Listed:
        """One more user of an object; the rest is said of a new one. Raises: OutOfMemory."""
        with self.lock:
            found = self._by_handle.get(handle)
            if found is None:
                found = Listed(handle, gpu_va, nbytes, read_only=read_only)
                number = len(self._held)
                if (number + 1) * SubmitBo.SIZE > self._table.nbytes:
                    self._grow()
                self._store(number, found)
                self._held.append(found)
                self._by_handle[handle] = found
                self.changes += 1
            found.users += 1
            return found

    def knows(self, handle: int) -> bool:
        """Whether somebody uses an object."""
        return handle in self._by_handle

    def _grow(self) -> None:
        old = self._table
        made = self._world.mmap(-1, 2 * old.nbytes)
        made.write(0, old.read(0, old.nbytes))
        self._table = made
        old.close()

    def _store(self, number: int, held: Listed) -> None:
        flags = _FLAGS if held.read_only else _FLAGS | SubmitBoFlag.WRITE
        entry = SubmitBo(flags=int(flags), handle=held.handle, presumed=held.gpu_va)
        held.index = number
        self._table.write(number * SubmitBo.SIZE, bytes(entry.raw))

    def remove(self, held: Listed) -> bool:
        """One user less; whether it was the last. Then the list's last one takes its place."""
        with self.lock:
            held.users -= 1
            if held.users:
                return False
            del self._by_handle[held.handle]
            last = self._held.pop()
            if last is not held:
                self._held[held.index] = last
                self._store(held.index, last)
            self.changes += 1
            return True

    def close(self) -> None:
        """Free the list."""
        self._table.close()
