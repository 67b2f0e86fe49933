"""The resource manager's objects: clients, their handles, parents and children.

src: open-gpu-kernel-modules, src/nvidia/src/libraries/resserv/src/rs_client.c, rs_server.c
"""

from __future__ import annotations

import os
from typing import TypeVar

from boards.nv import status
from boards.nv.status import RmError

_FIRST_CLIENT, _FIRST_HANDLE = 0xC1D0_0000, 0xCAF0_0000
"""src: resserv.h RS_CLIENT_HANDLE_BASE, RS_UNIQUE_HANDLE_BASE"""
ObjectT = TypeVar("ObjectT", bound="Object")


class Object:
    """Something with a handle; it goes with its parent."""

    def __init__(self) -> None:
        self.handle, self.class_number = 0, 0
        self.client: Client
        self.parent: Object | None = None
        self.children: dict[int, Object] = {}
        self.host_mappings: set[int] = set()
        """What RM_MAP_MEMORY called its mappings for the host."""

    def map_for_host(self, address: int) -> int:
        """Note a mapping: its address."""
        self.host_mappings.add(address)
        return address

    def freed(self) -> None:
        """It is gone, and its children are."""

    def ancestor(self, kind: type[ObjectT]) -> ObjectT:
        """The object of a kind that it is under. Raises: RmError INVALID_OBJECT_PARENT."""
        found: Object | None = self
        for _ in range(_MOST_LEVELS):
            if found is None:
                break
            if isinstance(found, kind):
                return found
            found = found.parent
        raise RmError(status.INVALID_OBJECT_PARENT, f"{self.handle:#x} is under no such object")


_MOST_LEVELS = 16


class Client(Object):
    """A client: the name space of handles, which one open control file owns."""

    def __init__(self, handle: int, owner: object) -> None:
        super().__init__()
        self.handle, self.client, self.owner = handle, self, owner
        self.made_by = os.getpid()
        self.objects: dict[int, Object] = {handle: self}
        self._next = _FIRST_HANDLE

    def find(self, handle: int) -> Object:
        """Raises: RmError OBJECT_NOT_FOUND."""
        found = self.objects.get(handle)
        if found is None:
            raise RmError(status.OBJECT_NOT_FOUND, f"client {self.handle:#x} has no {handle:#x}")
        return found

    def get(self, handle: int, kind: type[ObjectT], number: int) -> ObjectT:
        """An object of a kind. Raises: RmError with `number` for another or none."""
        found = self.objects.get(handle)
        if not isinstance(found, kind):
            raise RmError(number, f"{handle:#x} is no {kind.__name__}")
        return found

    def add(self, made: Object, parent: Object, handle: int, class_number: int) -> int:
        """Give an object its handle; 0: one is chosen. Raises: RmError for a handle in use."""
        if handle == 0:
            handle = self._free_handle()
        self.check_new(handle)
        made.handle, made.class_number = handle, class_number
        made.client, made.parent = self, parent
        self.objects[handle] = made
        parent.children[handle] = made
        return handle

    def check_new(self, handle: int) -> None:
        """src: clientValidateNewResourceHandle_IMPL(). Raises: RmError."""
        if handle == self.handle:
            raise RmError(status.INVALID_OBJECT_HANDLE, "the handle is the client's own")
        if handle in self.objects:
            raise RmError(status.INSERT_DUPLICATE_NAME, f"handle {handle:#x} is in use")

    def _free_handle(self) -> int:
        self._next += 1
        return self._next

    def remove(self, gone: Object) -> None:
        """Free an object after its children, the latest first."""
        for child in reversed(list(gone.children.values())):
            self.remove(child)
        gone.freed()
        del self.objects[gone.handle]
        if gone.parent is not None:
            del gone.parent.children[gone.handle]


def client_handle(taken: dict[int, Client]) -> int:
    """The next free handle of a client."""
    return next(h for h in range(_FIRST_CLIENT, _FIRST_CLIENT + len(taken) + 1) if h not in taken)
